//! The node's `azure.json`.

use std::path::Path;

use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::{
    Node, Secret,
    node::Value,
    text::{inline, same_name},
};

use crate::{
    Call,
    azure::{Id, authority_of_cloud},
};

/// The cloud whose addresses are in a file.
const STACK: &str = "AzureStackCloud";

/// What the file says about logins.
#[derive(Debug)]
pub(super) struct Config {
    /// The address of Entra ID.
    pub(super) authority: String,
    /// The identity of the node, if it is to be used.
    pub(super) identity: Option<Id>,
    /// The tenant of the node.
    pub(super) tenant: Option<String>,
    /// The application of the node, and its secret.
    pub(super) principal: Option<(String, Secret)>,
    /// The domain of registries in an Azure Stack cloud.
    pub(super) domain: Option<String>,
}

impl Config {
    /// Reads the file, which is JSON or YAML.
    pub(super) fn read(call: &Call, path: &str) -> Result<Self, Refusal> {
        let node = read(call, path)?;
        let text = |name: &str| text(&node, name);
        let cloud = text("cloud").unwrap_or_else(|| "AzurePublicCloud".into());
        let (authority, domain) = if cloud.eq_ignore_ascii_case(STACK) {
            stack(call)?
        } else {
            (authority_of_cloud(&cloud)?.to_owned(), None)
        };
        let managed = matches!(
            field(&node, "useManagedIdentityExtension").map(|node| &node.value),
            Some(Value::Bool(true))
        );
        let identity = match text("userAssignedIdentityID") {
            None => Id::System,
            Some(id) if id.to_ascii_lowercase().contains("/subscriptions/") => Id::Resource(id),
            Some(id) => Id::Client(id),
        };
        Ok(Self {
            authority,
            identity: managed.then_some(identity),
            tenant: text("tenantId"),
            principal: text("aadClientId").zip(text("aadClientSecret").map(Secret::new)),
            domain,
        })
    }
}

/// The addresses of an Azure Stack cloud.
fn stack(call: &Call) -> Result<(String, Option<String>), Refusal> {
    let variable = "AZURE_ENVIRONMENT_FILEPATH";
    let path = call.var(variable).ok_or_else(|| {
        Refusal::BadConfig(format!(
            "the cloud `{STACK}` needs the file of its addresses in `{variable}`"
        ))
    })?;
    let node = read(call, &path)?;
    let authority = text(&node, "activeDirectoryEndpoint").ok_or_else(|| {
        Refusal::BadConfig(format!("`{}` has no `activeDirectoryEndpoint`", inline(&path)))
    })?;
    let domain = text(&node, "containerRegistryDNSSuffix");
    Ok((authority, domain.map(|domain| domain.trim_start_matches('.').to_owned())))
}

fn read(call: &Call, path: &str) -> Result<Node, Refusal> {
    let shown = inline(path);
    let bytes =
        file::read(&call.surroundings.absolute(Path::new(path)), &Limits::NAMED.at_most(1 << 20));
    let bytes = bytes.map_err(|error| {
        Refusal::BadConfig(format!("cannot read `{shown}`: {}", file::reason(&error)))
    })?;
    Node::from_json_or_yaml(&bytes).map_err(|error| {
        Refusal::BadConfig(format!("`{shown}` cannot be read: line {}: {}", error.line, error.what))
    })
}

/// A field by its name in any case, as Go reads it.
fn field<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let Value::Map(entries) = &node.value else { return None };
    let lower = name.to_ascii_lowercase();
    entries.iter().find(|entry| same_name(&entry.key, &lower)).map(|entry| &entry.value)
}

fn text(node: &Node, name: &str) -> Option<String> {
    match &field(node, name)?.value {
        Value::Text(text) if !text.is_empty() => Some(text.to_string()),
        _ => None,
    }
}
