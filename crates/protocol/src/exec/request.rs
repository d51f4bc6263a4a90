//! What a client asks a plugin.

use std::fmt;

use super::{
    Detail, Form, Version,
    envelope::{Envelope, Fault},
    shape,
};
use crate::{
    Node,
    json::{self, Object, push_list, push_text},
    node::Value,
    url,
};

/// What a client asks a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The version both sides speak.
    pub version: Version,
    /// Whether the plugin may talk to a person on its stdin.
    pub interactive: bool,
    /// The cluster it is for, where the kubeconfig says `provideClusterInfo`.
    pub cluster: Option<Cluster>,
    /// The server's response to the previous credential. Only in v1alpha1.
    pub response: Option<Response>,
    /// The form of v1alpha1 to write.
    pub form: Form,
}

/// The cluster as a plugin sees it: the kubeconfig's, with the certificate authority's content in
/// place of its path.
#[derive(Clone, PartialEq, Default)]
pub struct Cluster {
    /// URL of the API server.
    pub server: String,
    /// Name to check the server's certificate against, where it is not the URL's host.
    pub tls_server_name: String,
    /// Whether the server's certificate is not checked.
    pub insecure_skip_tls_verify: bool,
    /// The certificate authorities, in PEM; empty for the system's.
    pub certificate_authority_data: Vec<u8>,
    /// URL of the proxy to use.
    pub proxy_url: String,
    /// Whether responses must not be compressed.
    pub disable_compression: bool,
    /// The kubeconfig's `client.authentication.k8s.io/exec` extension.
    pub config: Option<Node>,
}

/// A server's refusal, as a plugin under v1alpha1 sees it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// HTTP status code.
    pub code: u16,
    /// HTTP headers, names in canonical form.
    pub header: Vec<(String, Vec<String>)>,
}

/// A request that was read, and what its reader should know about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The request itself.
    pub request: Request,
    /// Oddities that did not keep it from being read.
    pub notes: Vec<Note>,
}

/// Something odd in a request, worth a word to the plugin's author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// `spec.cluster.serverName`, a name that only an early sample had; it is not read.
    ServerName,
    /// `spec.cluster.caData`, a name that only an early sample had; it is not read.
    CaData,
}

/// Why a request could not be read. No variant carries text of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// Not a document, not of a type we know, or a field of the wrong type.
    Decode {
        /// What is wrong and where.
        what: String,
        /// The class of the fault.
        detail: Detail,
    },
    /// A known type, but not a request.
    WrongKind,
    /// A request in the version that the reference keeps for itself, in which no field has its usual name.
    Internal,
}

impl Request {
    /// A request that says nothing but its version.
    pub fn new(version: Version) -> Self {
        Self { version, interactive: false, cluster: None, response: None, form: Form::default() }
    }

    /// The one-line JSON that goes into [`super::REQUEST_VARIABLE`], newline included (IN-01).
    pub fn to_json(&self) -> String {
        let alpha = self.version == Version::V1Alpha1;
        let info = alpha && self.form == Form::ExecInfo;
        json::line(|message| {
            message.text("kind", if info { "ExecInfo" } else { "ExecCredential" });
            message.text("apiVersion", self.version.api_version());
            if !info {
                let mut spec = message.object("spec");
                if let Some(cluster) = &self.cluster {
                    cluster.write(spec.object("cluster"));
                }
                self.write_situation(&mut spec);
                spec.close();
            }
            if alpha {
                self.write_situation(message);
            }
        })
    }

    /// What a plugin is told besides the cluster; only v1alpha1 has the response.
    fn write_situation(&self, object: &mut Object<'_>) {
        if self.version == Version::V1Alpha1
            && let Some(response) = &self.response
        {
            response.write(object.object("response"));
        }
        object.plain("interactive", self.interactive);
    }

    /// Reads a request of any version and form, in JSON or YAML. Unknown fields are ignored.
    pub fn read(bytes: &[u8]) -> Result<Reading, RequestError> {
        let message = Node::from_json_or_yaml(bytes)
            .map_err(|error| RequestError::decode(error.to_string(), Detail::Syntax))?;
        let envelope = Envelope::read(&message)?;
        let unknown = |what: &str| RequestError::decode(what.to_owned(), Detail::UnknownType);
        if envelope.kind.is_empty() {
            return Err(unknown("`kind` is missing"));
        }
        if envelope.version.is_empty() {
            return Err(unknown("`apiVersion` is missing"));
        }
        if envelope.is_foreign() {
            // In a `Status` the field of that name is a text.
            let status = message.get("status").filter(|_| envelope.kind == "Status");
            if let Some(Err(error)) = status.map(|status| status.text("status")) {
                return Err(RequestError::decode(error.to_string(), Detail::FieldType));
            }
            return Err(RequestError::WrongKind);
        }
        if envelope.is_unversioned() && envelope.kind == "ExecCredential" {
            return Err(RequestError::Internal);
        }
        let version = envelope.version().ok_or_else(|| unknown(envelope.unknown_version()))?;
        let form = match (envelope.kind, version) {
            ("ExecCredential", _) => Form::ExecCredential,
            ("ExecInfo", Version::V1Alpha1) => Form::ExecInfo,
            _ => return Err(unknown("`kind` is not `ExecCredential`")),
        };
        shape::check(&message, version)?;
        let mut reading = Reading { request: Self::new(version), notes: Vec::new() };
        reading.request.form = form;
        reading.fill(&message);
        Ok(reading)
    }
}

impl Reading {
    /// Takes the values out of a message whose types were checked. Later fields win over earlier
    /// ones, and what `null` says is nothing.
    fn fill(&mut self, message: &Node) {
        let alpha = self.request.version == Version::V1Alpha1;
        if alpha {
            self.situation(message);
        }
        for spec in fields(message, "spec") {
            self.situation(spec);
            for cluster in fields(spec, "cluster") {
                match &cluster.value {
                    Value::Map(_) => self.cluster(cluster),
                    _ => self.request.cluster = None,
                }
            }
        }
    }

    fn situation(&mut self, node: &Node) {
        for value in fields(node, "interactive") {
            if let Value::Bool(value) = value.value {
                self.request.interactive = value;
            }
        }
        if self.request.version != Version::V1Alpha1 {
            return;
        }
        for response in fields(node, "response") {
            self.request.response = Response::read(response);
        }
    }

    fn cluster(&mut self, node: &Node) {
        let cluster = self.request.cluster.get_or_insert_default();
        for entry in node.entries() {
            match (entry.key.as_str(), &entry.value.value) {
                ("server", Value::Text(text)) => cluster.server = text.to_string(),
                ("tls-server-name", Value::Text(text)) => {
                    cluster.tls_server_name = text.to_string();
                }
                ("proxy-url", Value::Text(text)) => cluster.proxy_url = text.to_string(),
                ("insecure-skip-tls-verify", Value::Bool(value)) => {
                    cluster.insecure_skip_tls_verify = *value;
                }
                ("disable-compression", Value::Bool(value)) => {
                    cluster.disable_compression = *value;
                }
                ("certificate-authority-data", _) => {
                    cluster.certificate_authority_data = entry.value.bytes("").unwrap_or_default();
                }
                ("config", Value::Null) => {}
                ("config", _) => cluster.config = Some(entry.value.clone()),
                ("serverName", _) => self.notes.push(Note::ServerName),
                ("caData", _) => self.notes.push(Note::CaData),
                _ => {}
            }
        }
    }
}

impl Cluster {
    fn write(&self, mut object: Object<'_>) {
        object.text("server", &self.server).text_if("tls-server-name", &self.tls_server_name);
        if self.insecure_skip_tls_verify {
            object.plain("insecure-skip-tls-verify", true);
        }
        if !self.certificate_authority_data.is_empty() {
            object.bytes("certificate-authority-data", &self.certificate_authority_data);
        }
        object.text_if("proxy-url", &self.proxy_url);
        if self.disable_compression {
            object.plain("disable-compression", true);
        }
        let config = object.field("config");
        match &self.config {
            Some(node) => node.push_json(config),
            None => config.push_str("null"),
        }
        object.close();
    }
}

impl Response {
    fn write(&self, mut object: Object<'_>) {
        let mut header: Vec<_> = self.header.iter().collect();
        header.sort();
        if !header.is_empty() {
            let mut headers = object.object("header");
            for (name, values) in header {
                push_list(headers.field(name), values, |out, value| push_text(out, value));
            }
            headers.close();
        }
        object.plain("code", self.code);
        object.close();
    }

    /// A response whose types were checked; `None` for `null`.
    fn read(node: &Node) -> Option<Self> {
        let Value::Map(_) = &node.value else { return None };
        let mut response = Self::default();
        if let Some(code) = node.get("code").and_then(|code| code.integer("").ok().flatten()) {
            response.code = u16::try_from(code).unwrap_or_default();
        }
        for entry in node.get("header").map(Node::entries).unwrap_or_default() {
            let values = entry.value.list("").ok().flatten().unwrap_or_default();
            let values = values.iter().filter_map(Node::as_text).map(str::to_owned).collect();
            response.header.push((entry.key.clone(), values));
        }
        Some(response)
    }
}

impl RequestError {
    fn decode(what: String, detail: Detail) -> Self {
        Self::Decode { what, detail }
    }
}

impl From<Fault> for RequestError {
    fn from(fault: Fault) -> Self {
        Self::decode(fault.what, fault.detail)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode { what, .. } => f.write_str(what),
            Self::WrongKind => f.write_str("`kind` is not `ExecCredential`"),
            Self::Internal => f.write_str("`apiVersion` is `__internal`"),
        }
    }
}

impl std::error::Error for RequestError {}

/// Shows addresses without passwords, and certificates by their size.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("server", &url::mask(&self.server))
            .field("tls_server_name", &self.tls_server_name)
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("certificate_authority_data", &self.certificate_authority_data.len())
            .field("proxy_url", &url::mask(&self.proxy_url))
            .field("disable_compression", &self.disable_compression)
            .field("config", &self.config)
            .finish()
    }
}

/// Shows the names of headers: a server may hand out cookies even as it refuses.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.header.iter().map(|(name, _)| name).collect();
        f.debug_struct("Response").field("code", &self.code).field("header", &names).finish()
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ServerName => {
                "`spec.cluster.serverName` is not read; the name is `tls-server-name`"
            }
            Self::CaData => {
                "`spec.cluster.caData` is not read; the name is `certificate-authority-data`"
            }
        })
    }
}

/// All values of `name`: JSON may repeat it.
fn fields<'a>(node: &'a Node, name: &'a str) -> impl Iterator<Item = &'a Node> {
    let entries = node.entries().iter();
    entries.filter(move |entry| entry.key == name).map(|entry| &entry.value)
}
