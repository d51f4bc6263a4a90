//! `docker-credential-login get`
//!
//! A credential helper of docker, podman and skopeo with the logins in the file `$LOGINS`, one per line:
//!
//! ```text
//! # registry, user name, password
//! registry.example:5000  puller  s3cr3t
//! ```
//!
//! Install it as `docker-credential-login`, and name it in `~/.docker/config.json`:
//!
//! ```json
//! {"credHelpers": {"registry.example:5000": "login"}}
//! ```

use std::{env, fs, process::ExitCode};

use keyward_plugin::{DockerHelper, DockerLogin, Refusal, serve_docker};

struct Logins;

impl DockerHelper for Logins {
    fn get(&self, server: &str) -> Result<Option<DockerLogin>, Refusal> {
        let host = server.strip_prefix("https://").unwrap_or(server);
        let host = host.split('/').next().unwrap_or(host);
        let lines = lines()?;
        let own = lines.iter().find(|(known, _, _)| known == host);
        Ok(own.map(|(_, name, password)| DockerLogin::new(name, password)))
    }

    fn list(&self) -> Result<Vec<(String, String)>, Refusal> {
        Ok(lines()?.into_iter().map(|(host, name, _)| (host, name)).collect())
    }
}

fn lines() -> Result<Vec<(String, String, String)>, Refusal> {
    let path = env::var_os("LOGINS").ok_or_else(|| {
        Refusal::BadConfig("`LOGINS` is not set\n\nhint: set it to the file with the logins".into())
    })?;
    let text = fs::read_to_string(&path).map_err(Refusal::file(&path))?;
    let logins = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.next()?, words.next()?))
    });
    Ok(logins.collect())
}

fn main() -> ExitCode {
    serve_docker(Logins)
}
