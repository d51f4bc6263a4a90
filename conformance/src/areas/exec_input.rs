//! What a plugin is told, and whether it gets our stdin.

use keyward_host::{
    Draft, Kind, Surroundings, Target,
    kubeconfig::{Cluster, Exec, User},
    plan::Settings,
    rules::Rules,
    surroundings::Fixed,
};
use keyward_protocol::{Node, text::from_base64};
use serde_json::Value;

pub(super) fn check(case: &Value) -> Result<(), String> {
    let surroundings = Surroundings::fixed(Fixed {
        cwd: "/".into(),
        stdin_is_terminal: case["stdinIsTerminal"] == true,
        ..Fixed::default()
    });
    let mut settings = Settings::default();
    if case["stdinUnavailable"] == true {
        let why = case["stdinUnavailableMessage"].as_str().unwrap_or_default();
        settings.stdin_unavailable = Some(why.to_owned());
    }
    let draft = Draft::new(target(case)?, &Rules::default(), &surroundings, settings);
    let plugin = draft.plugin();
    let expected = &case["expect"];
    match (plugin.and_then(|plugin| plugin.request()), expected["ok"].as_object()) {
        (Some(request), Some(ok)) => {
            let found = request.to_json();
            if Some(found.as_str()) != ok["execInfo"].as_str() {
                return Err(format!("expected {}, found {found}", ok["execInfo"]));
            }
            let stdin = if request.interactive { "inherited" } else { "null-device" };
            if ok["stdin"] == stdin { Ok(()) } else { Err(format!("stdin is {stdin}")) }
        }
        (None, None) => {
            // The program is not there in these cases; what counts is what is in the way first.
            let kind = draft.faults().first().map(keyward_host::Error::kind);
            match (kind, expected["error"]["class"].as_str()) {
                (Some(Kind::NeedsTerminal | Kind::BadConfig), Some("interactive")) => Ok(()),
                (Some(Kind::BadConfig), Some("config_api_version")) if plugin.is_none() => Ok(()),
                (kind, class) => Err(format!("expected {class:?}, found {kind:?}")),
            }
        }
        (Some(request), None) => {
            Err(format!("expected {}, found {}", expected["error"], request.to_json()))
        }
        (None, Some(_)) => Err(format!("expected an answer, found {:?}", draft.faults())),
    }
}

/// The configuration as a program would build it: nothing of it was read from a kubeconfig.
fn target(case: &Value) -> Result<Target, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (cluster, exec_config) = cluster(&case["cluster"])?;
    let exec = Exec {
        api_version: text(&case["configApiVersion"]),
        command: "plugin".into(),
        // A program that knows no cluster has none to tell.
        provide_cluster_info: case["provideClusterInfo"] == true && case["cluster"].is_object(),
        interactive_mode: text(&case["interactiveMode"]),
        ..Exec::default()
    };
    Ok(Target {
        namespace: "default".into(),
        cluster,
        user: User { exec: Some(exec), ..User::default() },
        exec_config,
        ..Target::default()
    })
}

fn cluster(said: &Value) -> Result<(Cluster, Option<Node>), String> {
    let mut cluster = Cluster::default();
    let mut config = None;
    for (name, value) in said.as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default().to_owned();
        match name.to_lowercase().replace('-', "").as_str() {
            "server" => cluster.server = text,
            "tlsservername" => cluster.tls_server_name = text,
            "insecure" | "insecureskiptlsverify" => {
                cluster.insecure_skip_tls_verify = *value == true;
            }
            "cadata" | "certificateauthoritydata" => {
                cluster.certificate_authority_data =
                    from_base64(text.as_bytes()).unwrap_or_else(|| text.into_bytes());
            }
            "proxyurl" => cluster.proxy_url = text,
            "disablecompression" => cluster.disable_compression = *value == true,
            "configrawjson" => {
                config = Some(Node::from_json(text.as_bytes()).map_err(|e| e.to_string())?);
            }
            _ => return Err(format!("the case has a field `{name}` that nobody knows")),
        }
    }
    Ok((cluster, config))
}
