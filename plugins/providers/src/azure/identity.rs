//! Managed identities: tokens that the machine or service gives to whoever runs on it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use http::{Request, Response, header::WWW_AUTHENTICATE, request::Builder};
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::{Secret, text::inline};

use super::{Azure, Token, no_address, post, reason, resource};
use crate::http::{form, require_https_or_near};

/// The address of the metadata service of virtual machines.
const IMDS: &str = "http://169.254.169.254";

/// Where Azure Arc puts the files that prove that a program may read as root or its group.
const ARC_KEYS: &str = "/var/opt/azcmagent/tokens";

/// The pauses between the questions to a metadata service that is not ready.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(8),
];

/// The time after which a metadata service is not asked again.
const PATIENCE: Duration = Duration::from_secs(20);

/// An identity among those that a machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Id {
    /// The machine's own.
    System,
    /// By the ID of the client.
    Client(String),
    /// By the path of the Azure resource.
    Resource(String),
}

/// The service that gives tokens on this machine.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    AppService { endpoint: String, header: String },
    MachineLearning { endpoint: String, secret: String },
    CloudShell { endpoint: String },
    Arc { endpoint: String },
    Machine { host: String },
}

impl Azure<'_> {
    /// A token of a managed identity.
    pub(crate) fn identity_token(&self, id: &Id, scope: &str) -> Result<Token, Refusal> {
        let source = self.source()?;
        let name = format!("managed identity of {}", source.name());
        let found = self.ask_machine(&source, id, resource(scope));
        match &found {
            Ok(_) => self.call.used(name, id.shown()),
            Err(refusal) => self.call.failed(name, refusal.to_string()),
        }
        found
    }

    /// Finds out where this runs, by the variables that services set, in the order of Azure's SDKs.
    fn source(&self) -> Result<Source, Refusal> {
        let var = |name: &str| self.call.var(name);
        for name in ["IDENTITY_ENDPOINT", "MSI_ENDPOINT"] {
            if let Some(endpoint) = var(name) {
                require_https_or_near(&endpoint, &format!("`{name}`"))?;
            }
        }
        match (var("IDENTITY_ENDPOINT"), var("IDENTITY_HEADER")) {
            (Some(_), Some(_)) if var("IDENTITY_SERVER_THUMBPRINT").is_some() => {
                return Err(Refusal::bad_config(
                    "managed identities of Service Fabric are not supported: its endpoint has a certificate that \
                     no authority signed\n\nhint: use a service principal (`--login spn`)",
                ));
            }
            (Some(endpoint), Some(header)) => return Ok(Source::AppService { endpoint, header }),
            _ => self.call.skipped(
                "App Service",
                "`IDENTITY_ENDPOINT` and `IDENTITY_HEADER` are not both set",
            ),
        }
        match (var("MSI_ENDPOINT"), var("MSI_SECRET")) {
            (Some(endpoint), Some(secret)) => {
                return Ok(Source::MachineLearning { endpoint, secret });
            }
            (Some(endpoint), None) => return Ok(Source::CloudShell { endpoint }),
            _ => self.call.skipped("Cloud Shell", "`MSI_ENDPOINT` is not set"),
        }
        match (var("IDENTITY_ENDPOINT"), var("IMDS_ENDPOINT")) {
            (Some(endpoint), Some(_)) => return Ok(Source::Arc { endpoint }),
            _ => self.call.skipped("Azure Arc", "`IMDS_ENDPOINT` is not set"),
        }
        let host = var("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or_else(|| IMDS.to_owned());
        Ok(Source::Machine { host: host.trim_end_matches('/').to_owned() })
    }

    fn ask_machine(&self, source: &Source, id: &Id, resource: &str) -> Result<Token, Refusal> {
        let response = match source {
            Source::AppService { endpoint, header } => {
                let get =
                    get(endpoint, "2019-08-01", resource, id.with(["client_id", "mi_res_id"]))?;
                self.ask(get.header("X-IDENTITY-HEADER", header))?
            }
            Source::MachineLearning { endpoint, secret } => {
                let get =
                    get(endpoint, "2017-09-01", resource, id.with(["clientid", "mi_res_id"]))?;
                self.ask(get.header("secret", secret))?
            }
            Source::CloudShell { endpoint } => {
                if *id != Id::System {
                    return Err(Refusal::bad_config(
                        "Cloud Shell has only the identity of its user; leave out `--client-id` and \
                         `--identity-resource-id`",
                    ));
                }
                let mut request = post(endpoint, &[("resource", resource)])?;
                request.headers_mut().insert("Metadata", http::HeaderValue::from_static("true"));
                self.send(NO_IDENTITY, request)?
            }
            Source::Arc { endpoint } => self.ask_arc(endpoint, id, resource)?,
            Source::Machine { host } => {
                let endpoint = format!("{host}/metadata/identity/oauth2/token");
                let id = id.with(["client_id", "msi_res_id"]);
                self.patiently(|| {
                    Ok(get(&endpoint, "2018-02-01", resource, id)?.header("Metadata", "true"))
                })?
            }
        };
        let status = response.status().as_u16();
        let answer = serde_json::from_slice(response.body()).unwrap_or_default();
        if let (200, Some(token)) = (status, Token::read(&answer, self.call.clock.now())) {
            return Ok(token);
        }
        let why = reason(status, response.body());
        let hint = match (status, id) {
            (400 | 404, Id::System) => {
                "\n\nhint: this machine has no identity of its own; assign one, or name an assigned one with \
                 `--client-id`"
            }
            (400 | 404, _) => {
                "\n\nhint: assign the identity to this machine, or check `--client-id` and \
                 `--identity-resource-id`"
            }
            _ => "",
        };
        let text = format!("{} gives no token for {}: {why}{hint}", source.name(), id.shown());
        Err(if (400..500).contains(&status) {
            Refusal::NotAllowed(text)
        } else {
            Refusal::Failed(text)
        })
    }

    fn ask(&self, request: Builder) -> Result<Response<Vec<u8>>, Refusal> {
        let request = request.body(Vec::new()).map_err(|_| no_header())?;
        self.send(NO_IDENTITY, request)
    }

    /// Asks again while the service says that it is not ready, as Azure's documentation demands.
    #[expect(
        clippy::disallowed_methods,
        reason = "the service needs time, and there is nothing else to do"
    )]
    fn patiently(
        &self,
        request: impl Fn() -> Result<Builder, Refusal>,
    ) -> Result<Response<Vec<u8>>, Refusal> {
        let mut pauses = PAUSES.iter();
        let begun = self.call.clock.elapsed();
        loop {
            let response = self.ask(request()?)?;
            let status = response.status().as_u16();
            let passing = matches!(status, 404 | 410 | 429 | 500..);
            let waited = self.call.clock.elapsed().saturating_sub(begun);
            match pauses.next().filter(|pause| passing && waited + **pause < PATIENCE) {
                Some(pause) => std::thread::sleep(*pause),
                None => return Ok(response),
            }
        }
    }

    /// Azure Arc answers with the name of a file, and only who can read that gets a token.
    fn ask_arc(
        &self,
        endpoint: &str,
        id: &Id,
        resource: &str,
    ) -> Result<Response<Vec<u8>>, Refusal> {
        let get = || {
            let request =
                get(endpoint, "2020-06-01", resource, id.with(["client_id", "msi_res_id"]))?;
            Ok::<_, Refusal>(request.header("Metadata", "true"))
        };
        let challenge = self.ask(get()?)?;
        if challenge.status() != 401 {
            return Ok(challenge);
        }
        let realm = challenge.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let realm = realm.and_then(|value| value.strip_prefix("Basic realm=")).unwrap_or_default();
        let key = arc_key(realm, Path::new(ARC_KEYS))?;
        self.ask(get()?.header("Authorization", format!("Basic {}", key.expose())))
    }
}

/// The content of the file that Azure Arc names. It has to be one of its own: what is in it is sent away.
fn arc_key(realm: &str, directory: &Path) -> Result<Secret, Refusal> {
    let path = PathBuf::from(realm.trim_matches('"'));
    if path.parent() != Some(directory)
        || path.extension().is_none_or(|extension| extension != "key")
    {
        return Err(Refusal::Failed(format!(
            "Azure Arc asks for `{}`, which is no key in `{}`; it is not sent",
            inline(realm),
            directory.display()
        )));
    }
    let content = file::read(&path, &Limits::NAMED.at_most(4096)).map_err(|error| {
        Refusal::Failed(format!(
            "cannot read `{}`, which proves to Azure Arc who asks: {}\n\n\
             hint: run as root, or add the user to the group `himds`",
            path.display(),
            file::reason(&error)
        ))
    })?;
    Ok(Secret::from_bytes(content.trim_ascii().to_vec()))
}

const NO_IDENTITY: &str = "no managed identity can be asked for";

fn get(
    endpoint: &str,
    version: &str,
    resource: &str,
    id: Option<(&str, &str)>,
) -> Result<Builder, Refusal> {
    let mut fields = vec![("api-version", version), ("resource", resource)];
    fields.extend(id);
    let join = if endpoint.contains('?') { '&' } else { '?' };
    let address = format!("{endpoint}{join}{}", form(&fields));
    let uri: http::Uri = address.parse().map_err(|_| no_address(endpoint))?;
    Ok(Request::get(uri))
}

fn no_header() -> Refusal {
    Refusal::bad_config("a variable of the managed identity has characters that no header may have")
}

impl Id {
    /// The parameter that selects it, under the names for the ID of a client and the path of a resource.
    fn with<'a>(&'a self, [client, resource]: [&'a str; 2]) -> Option<(&'a str, &'a str)> {
        match self {
            Self::System => None,
            Self::Client(id) => Some((client, id)),
            Self::Resource(id) => Some((resource, id)),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::System => "the machine's own identity".into(),
            Self::Client(id) => format!("the client `{}`", inline(id)),
            Self::Resource(id) => format!("the identity `{}`", inline(id)),
        }
    }
}

impl Source {
    fn name(&self) -> &'static str {
        match self {
            Self::AppService { .. } => "App Service",
            Self::MachineLearning { .. } => "Azure Machine Learning",
            Self::CloudShell { .. } => "Cloud Shell",
            Self::Arc { .. } => "Azure Arc",
            Self::Machine { .. } => "the virtual machine",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_key_of_arc_is_read_from_its_own_directory_alone() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("a.key");
        std::fs::write(&key, "s3cr3t\n").unwrap();
        let read = |path: &Path| arc_key(path.to_str().unwrap(), directory.path());
        assert_eq!(read(&key).unwrap().expose(), "s3cr3t");
        let other = directory.path().join("shadow");
        std::fs::write(&other, "s3cr3t").unwrap();
        for path in [other, directory.path().join("../a.key"), directory.path().join("b/a.key")] {
            assert!(read(&path).unwrap_err().to_string().contains("it is not sent"), "{path:?}");
        }
        std::fs::write(&key, "x".repeat(5000)).unwrap();
        assert!(read(&key).unwrap_err().to_string().contains("cannot read"), "a long file");
    }
}
