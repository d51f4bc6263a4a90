//! The questions to providers, for whom they are asked, and their keys.

use std::sync::Arc;

use keyward_protocol::text;

use super::{
    account::{Account, Pod},
    answer::{Answer, Scope},
    cache::Key,
    config::{Provider, TokenAttributes, TokenCache},
};

/// A question to a provider.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) provider: Arc<Provider>,
    pub(super) image: String,
    pub(super) client: Client,
    /// Whether the answer must not be shared with other images.
    pub(super) alone: bool,
}

/// For whom the question is asked.
#[derive(Clone, Default)]
pub(super) struct Client {
    pub(super) account: Option<(Pod, Account, TokenAttributes)>,
    pub(super) annotations: Vec<(String, String)>,
}

impl Question {
    pub(super) fn cache(&self) -> Option<TokenCache> {
        self.client.account.as_ref().map(|(_, _, attributes)| attributes.cache)
    }

    /// What identifies the provider across configurations: everything that a run of it depends on.
    pub(super) fn provider_key(&self) -> Key {
        let provider = &self.provider;
        let protocol = format!("{:?}", provider.protocol);
        let tokens = format!("{:?}", provider.tokens);
        let duration = provider.default_duration.to_be_bytes();
        let count = provider.args.len().to_be_bytes();
        let mut parts: Vec<&[u8]> = vec![
            provider.name.as_bytes(),
            protocol.as_bytes(),
            tokens.as_bytes(),
            &duration,
            &count,
        ];
        parts.extend(provider.args.iter().map(String::as_bytes));
        for (name, value) in &provider.env {
            parts.extend([name.as_bytes(), value.expose().as_bytes()]);
        }
        Key::of(parts)
    }

    /// The cache key of an answer with this scope for a client.
    pub(super) fn key(&self, scope: Scope, client: &Key) -> Key {
        let provider = self.provider_key();
        let part = scope.part(&self.image).as_bytes();
        Key::of([provider.bytes(), scope.name().as_bytes(), part, client.bytes()])
    }

    /// What distinguishes clients: the account and what is sent of it; with its own token, the pod.
    pub(super) fn client_key(&self) -> Key {
        let Some((pod, account, attributes)) = &self.client.account else { return Key::of([]) };
        let bound = match attributes.cache {
            TokenCache::ServiceAccount => "",
            TokenCache::Token => &pod.uid,
        };
        let mut parts = vec![
            pod.namespace.as_bytes(),
            pod.service_account.as_bytes(),
            account.uid.as_bytes(),
            bound.as_bytes(),
        ];
        for (name, value) in &self.client.annotations {
            parts.extend([name.as_bytes(), value.as_bytes()]);
        }
        Key::of(parts)
    }

    /// Whether an answer, asked for this image or another, answers this question.
    pub(super) fn covered(&self, answer: &Answer) -> bool {
        answer.scope.part(&answer.image) == answer.scope.part(&self.image)
    }
}

pub(super) fn with_token(client: &Key, hash: &Key) -> Key {
    Key::of([client.bytes(), hash.bytes()])
}

/// The annotations to send: all required ones, and the optional ones that exist. `Err` names a
/// missing one.
pub(super) fn annotations(
    attributes: &TokenAttributes,
    account: &Account,
) -> Result<Vec<(String, String)>, String> {
    let mut said = Vec::new();
    for key in &attributes.required_annotations {
        let value = account.annotations.get(key).ok_or_else(|| {
            format!("the service account has no annotation `{}`", text::inline(key))
        })?;
        said.push((key.clone(), value.clone()));
    }
    for key in &attributes.optional_annotations {
        said.extend(account.annotations.get(key).map(|value| (key.clone(), value.clone())));
    }
    said.sort();
    Ok(said)
}
