use keyward_protocol::{
    Secret,
    image::{Request, Version},
};
use serde_json::Value;

pub(super) fn check(case: &Value) -> Result<(), String> {
    let text = |field: &str| case[field].as_str().unwrap_or_default();
    let version = Version::parse(text("configApiVersion")).ok_or("a version we do not know")?;
    let annotations = case["annotations"].as_object().into_iter().flatten();
    let request = Request {
        version: Some(version),
        image: text("image").to_owned(),
        token: Some(text("token")).filter(|token| !token.is_empty()).map(Secret::new),
        annotations: annotations
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
    };
    let (seen, wanted) = (request.to_json(), text_of(&case["expect"]["stdin"])?);
    if seen.expose() != wanted {
        return Err(format!("{:?}, wanted {wanted:?}", seen.expose()));
    }
    // A plugin of ours reads back what was said, as far as the version says it.
    let read = Request::read(wanted.as_bytes()).map_err(|error| error.to_string())?;
    if read.image == request.image { Ok(()) } else { Err("another image when read".to_owned()) }
}

fn text_of(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "`expect.stdin` is not a text".to_owned())
}
