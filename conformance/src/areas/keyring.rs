use keyward_image::Keyring;
use keyward_protocol::Node;
use serde_json::{Value, json};

pub(super) fn check(case: &Value) -> Result<(), String> {
    let seen = answer(case);
    if seen == case["expect"] { Ok(()) } else { Err(format!("{seen}, wanted {}", case["expect"])) }
}

fn answer(case: &Value) -> Value {
    let mut keyring = Keyring::default();
    for config in case["configs"].as_array().into_iter().flatten() {
        let Ok(node) = Node::from_json(config.to_string().as_bytes()) else {
            return json!({ "error": { "class": "decode" } });
        };
        match Keyring::read_auths(&node) {
            Ok(logins) => keyring.add(logins),
            Err(_) => return json!({ "error": { "class": "decode" } }),
        }
    }
    let lookup = |image: &str| -> Vec<String> {
        let logins = keyring.lookup(image).into_iter();
        logins.map(|(_, login)| format!("{}:{}", login.username, login.password.expose())).collect()
    };
    let images = case["expect"]["ok"]["lookups"].as_array().into_iter().flatten();
    let lookups: Vec<Value> = images
        .map(|l| json!({ "image": l["image"], "creds": lookup(l["image"].as_str().unwrap_or_default()) }))
        .collect();
    json!({ "ok": { "index": keyring.keys().collect::<Vec<_>>(), "lookups": lookups } })
}
