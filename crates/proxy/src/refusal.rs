//! Why the proxy answers a request itself: the code a client gets, a label for metrics, and a message.

use std::borrow::Cow;

use http::StatusCode;

/// Why the proxy answers a request itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: StatusCode,
    /// The label in metrics; `None` when the server failed, which is no refusal of ours.
    pub(crate) reason: Option<&'static str>,
    pub(crate) message: Cow<'static, str>,
}

impl Refusal {
    const fn new(code: StatusCode, reason: &'static str, message: &'static str) -> Self {
        Self { code, reason: Some(reason), message: Cow::Borrowed(message) }
    }

    /// For what no client should send.
    const fn bad(reason: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason, message)
    }

    /// For what others may do, or with a switch.
    const fn forbidden(reason: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, reason, message)
    }

    /// For a context that the kubeconfig or the policy in force does not allow.
    pub(crate) fn closed(reason: &'static str, message: String) -> Self {
        Self { code: StatusCode::FORBIDDEN, reason: Some(reason), message: message.into() }
    }

    /// For a server that gave no response that can be passed on.
    pub(crate) fn server_failed(code: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: None, message: message.into() }
    }
}

pub(crate) const NO_HOST: Refusal =
    Refusal::bad("host", "the request names no host, or more than one");
pub(crate) const OTHER_HOST: Refusal = Refusal::forbidden(
    "host",
    "the request is for another host; use the kubeconfig that the proxy has written",
);
pub(crate) const BROWSER: Refusal = Refusal::forbidden(
    "origin",
    "the request comes from a browser: it has `Sec-Fetch-Site`, or an `Origin` that is not this address",
);
pub(crate) const OWN_AUTHORIZATION: Refusal = Refusal::forbidden(
    "authorization",
    "the request brings its own authorization, which would be used instead of the proxy's \
     identity; `keyward proxy --allow-authorization` passes it on",
);
pub(crate) const PROXY_AUTHORIZATION: Refusal = Refusal::forbidden(
    "authorization",
    "the request brings an authorization for a proxy, and this one asks for none",
);
pub(crate) const IMPERSONATION: Refusal = Refusal::forbidden(
    "impersonation",
    "the request wants to act as somebody else (`--as`); `keyward proxy --allow-impersonation` \
     passes that on",
);
/// With an incomplete one the server would take the kubeconfig's user for the rest.
pub(crate) const INCOMPLETE_IMPERSONATION: Refusal = Refusal::bad(
    "impersonation",
    "the request says more of whom to act as than who that is: it needs one `Impersonate-User`",
);
/// Between two versions of the kubeconfig.
pub(crate) const CHANGED: Refusal = Refusal::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "context",
    "the context was not served for a moment; try again",
);
pub(crate) const MIXED: Refusal = Refusal::forbidden(
    "mixed",
    "the cluster and the user are of two contexts of the proxy's kubeconfig; use a `--context` of it",
);
pub(crate) const METHOD: Refusal =
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", "`CONNECT` is not passed on");
pub(crate) const PATH: Refusal = Refusal::bad("path", "the request's path does not begin with `/`");
pub(crate) const CODING: Refusal = Refusal::new(
    StatusCode::NOT_IMPLEMENTED,
    "coding",
    "`chunked` is the only transfer coding that is passed on",
);
pub(crate) const NAME: Refusal =
    Refusal::bad("header", "a header's name has a quotation mark in it");
pub(crate) const LENGTH: Refusal = Refusal::bad("length", "`Content-Length` is not one number");
pub(crate) const LOST_ON_THE_WAY: Refusal = Refusal::bad(
    "connection",
    "`Connection` names more than headers of the connection, and it would be lost on the way",
);
pub(crate) const OTHER_UPGRADE: Refusal =
    Refusal::bad("upgrade", "only upgrades to `websocket` and `SPDY/3.1` are passed on");
/// Only the connection's own word makes it one (RFC 9110, 7.8).
pub(crate) const UNASKED_UPGRADE: Refusal =
    Refusal::bad("upgrade", "`Upgrade` needs `Connection: Upgrade` beside it");
/// Where the body ends and the other protocol begins is told by nobody.
pub(crate) const UPGRADE_WITH_BODY: Refusal =
    Refusal::bad("upgrade", "an upgrade with a body is not passed on");
/// Trailers arrive after everything else was checked and sent.
pub(crate) const TRAILERS: Refusal =
    Refusal::bad("trailers", "trailers after a request's body are not passed on");
pub(crate) const BROKEN_BODY: Refusal =
    Refusal::bad("body", "the request's body broke off, or its chunks are not by the rules");
