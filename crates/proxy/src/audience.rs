//! The readers of the proxy's own answers, and the form in which they show them.
//!
//! kubectl asks which kinds of objects a server has up to five times for one command, and prints a
//! log line for each failure, without the reason. So when there is no answer of the server, kubectl
//! is told of one group without kinds, with the reason as a warning, which it prints once. It then
//! knows no kind and ends. The group is in its cache afterwards, but a kind that is not in the cache
//! makes kubectl ask again, so it learns the truth as soon as there is one.

use http::{Request, Response, StatusCode, header::USER_AGENT};

use crate::{body::Answer, kube_status};

/// The reader of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// kubectl, which asks for the kinds of the core group.
    CoreGroup,
    /// kubectl, which asks for all other groups.
    Groups,
    /// A client that asks for the kinds of the group that takes the place of an answer.
    Placeholder,
    /// A client that shows plain text, but not a `Status`.
    Text,
    /// A client that shows a `Status`.
    Status,
}

impl Audience {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let kubectl = request
            .headers()
            .get(USER_AGENT)
            .is_some_and(|name| name.as_bytes().starts_with(b"kubectl"));
        match request.uri().path() {
            "/api" if kubectl => Self::CoreGroup,
            "/apis" if kubectl => Self::Groups,
            kube_status::PLACEHOLDER => Self::Placeholder,
            // Where client-go reads no `Status`, and would print `unknown` instead of the message.
            "/api" | "/apis" | "/version" => Self::Text,
            path if path.starts_with("/openapi/") => Self::Text,
            _ => Self::Status,
        }
    }

    /// Whether an error of the server itself would be shown again and again.
    pub(crate) fn is_discovery(self) -> bool {
        matches!(self, Self::CoreGroup | Self::Groups)
    }

    /// A refusal or failure in the form that is shown.
    pub(crate) fn answer(self, code: StatusCode, message: &str) -> Response<Answer> {
        match self {
            Self::CoreGroup => kube_status::no_group(message),
            Self::Groups => kube_status::placeholder(message),
            Self::Placeholder => kube_status::no_resources(),
            Self::Text => kube_status::text(code, message),
            Self::Status => kube_status::response(code, message),
        }
    }
}
