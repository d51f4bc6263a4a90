//! The requests to the plugin.

use keyward_protocol::exec::{Cluster, Form, Request, Version};

/// A request, and its name in messages.
#[derive(Clone)]
pub(super) struct Question {
    /// Such as `asked in v1`.
    pub(super) name: String,
    /// The version that the answer must have; `None` if the request has none.
    pub(super) version: Option<Version>,
    /// The value of the variable; `None` if it is not set.
    pub(super) text: Option<String>,
}

impl Question {
    /// Only the version, without a person.
    pub(super) fn plain(version: Version, form: Form) -> Self {
        let name = match form {
            Form::ExecCredential => version.name(),
            Form::ExecInfo => "the form of the original proposal",
        };
        Self::new(format!("asked in {name}"), &request(version, form, false))
    }

    /// Only the version, with a person at the terminal.
    pub(super) fn interactive(version: Version, form: Form) -> Self {
        Self::new("asked at a terminal".to_owned(), &request(version, form, true))
    }

    /// With a cluster, as for `provideClusterInfo` in a kubeconfig. Nothing listens there.
    pub(super) fn with_cluster(version: Version, form: Form) -> Self {
        let cluster = Cluster {
            server: "https://127.0.0.1:9".to_owned(),
            tls_server_name: "cluster.invalid".to_owned(),
            ..Cluster::default()
        };
        let request = Request { cluster: Some(cluster), ..request(version, form, false) };
        Self::new("asked for a cluster".to_owned(), &request)
    }

    /// With fields that no version has yet.
    pub(super) fn with_unknown_fields(version: Version, form: Form) -> Self {
        let text = match form {
            Form::ExecInfo => format!(
                "{{\"kind\":\"ExecInfo\",\"apiVersion\":\"{}\",\"interactive\":false,\"x-unknown\":[{{\"deep\":1.5}}]}}",
                version.api_version()
            ),
            Form::ExecCredential => format!(
                "{{\"kind\":\"ExecCredential\",\"apiVersion\":\"{}\",\"metadata\":{{\"labels\":null}},\
             \"spec\":{{\"interactive\":false,\"x-unknown\":[{{\"deep\":1.5}}]}},\"x-unknown\":true}}",
                version.api_version()
            ),
        };
        Self {
            name: "asked with unknown fields".to_owned(),
            version: Some(version),
            text: Some(text),
        }
    }

    /// The variable is not set.
    pub(super) fn missing() -> Self {
        Self { name: "asked nothing".to_owned(), version: None, text: None }
    }

    /// The variable contains no valid document.
    pub(super) fn unreadable() -> Self {
        Self {
            name: "asked something unreadable".to_owned(),
            version: None,
            text: Some("{\"kind\":".to_owned()),
        }
    }

    /// Renames the question.
    pub(super) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    fn new(name: String, request: &Request) -> Self {
        Self { name, version: Some(request.version), text: Some(request.to_json()) }
    }
}

fn request(version: Version, form: Form, interactive: bool) -> Request {
    Request { version, interactive, cluster: None, response: None, form }
}
