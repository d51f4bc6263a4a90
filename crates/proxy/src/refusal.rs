//! Why the proxy answers a request itself: the code a client gets, a label for metrics, and a message.

use std::borrow::Cow;

use http::StatusCode;

/// Why the proxy answers a request itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: StatusCode,
    /// The label in metrics; `None` if the server failed, which is not a refusal.
    pub(crate) reason: Option<&'static str>,
    pub(crate) message: Cow<'static, str>,
}

impl Refusal {
    const fn new(code: StatusCode, reason: &'static str, message: &'static str) -> Self {
        Self { code, reason: Some(reason), message: Cow::Borrowed(message) }
    }

    /// For requests that no client should send.
    const fn bad(reason: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason, message)
    }

    /// For requests that need a flag, or another client.
    const fn forbidden(reason: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, reason, message)
    }

    /// For a request for a page that a person reads.
    pub(crate) const fn of_page(code: StatusCode, message: &'static str) -> Self {
        Self { code, reason: None, message: Cow::Borrowed(message) }
    }

    /// For what the kubeconfig, the policy or the grant in force does not allow.
    pub(crate) fn closed(reason: &'static str, message: String) -> Self {
        Self { code: StatusCode::FORBIDDEN, reason: Some(reason), message: message.into() }
    }

    /// For a grant whose requests cannot be recorded.
    pub(crate) fn unrecorded(message: String) -> Self {
        let code = StatusCode::SERVICE_UNAVAILABLE;
        Self { code, reason: Some("grant"), message: message.into() }
    }

    /// For a server without a response that can be forwarded.
    pub(crate) fn server_failed(code: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: None, message: message.into() }
    }
}

pub(crate) const NO_HOST: Refusal =
    Refusal::bad("host", "the request names no host, or more than one");
pub(crate) const OTHER_HOST: Refusal = Refusal::forbidden(
    "host",
    "the request is for another host; use the kubeconfig that the proxy wrote",
);
pub(crate) const BROWSER: Refusal = Refusal::forbidden(
    "origin",
    "the request comes from a browser: it has `Sec-Fetch-Site`, or an `Origin` that is not this address",
);
pub(crate) const OWN_AUTHORIZATION: Refusal = Refusal::forbidden(
    "authorization",
    "the request carries its own authorization, which would be used instead of the proxy's \
     identity; `keyward proxy --allow-authorization` forwards it",
);
pub(crate) const PROXY_AUTHORIZATION: Refusal = Refusal::forbidden(
    "authorization",
    "the request carries `Proxy-Authorization`, which this proxy does not use",
);
pub(crate) const IMPERSONATION: Refusal = Refusal::forbidden(
    "impersonation",
    "the request impersonates another user (`--as`); `keyward proxy --allow-impersonation` \
     forwards it",
);
/// With an incomplete one the server would use the kubeconfig's user for the rest.
pub(crate) const INCOMPLETE_IMPERSONATION: Refusal = Refusal::bad(
    "impersonation",
    "the request impersonates groups or a UID without exactly one `Impersonate-User`",
);
/// Between two versions of the kubeconfig.
pub(crate) const CHANGED: Refusal = Refusal::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "context",
    "the context was being reloaded; try again",
);
pub(crate) const MIXED: Refusal = Refusal::forbidden(
    "mixed",
    "the cluster and the user belong to different contexts of the proxy's kubeconfig; choose both with `--context`",
);
pub(crate) const METHOD: Refusal =
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", "`CONNECT` is not forwarded");
pub(crate) const PATH: Refusal = Refusal::bad("path", "the request's path does not begin with `/`");
pub(crate) const CODING: Refusal = Refusal::new(
    StatusCode::NOT_IMPLEMENTED,
    "coding",
    "`chunked` is the only supported transfer coding",
);
pub(crate) const NAME: Refusal = Refusal::bad("header", "a header name contains a quotation mark");
pub(crate) const LENGTH: Refusal = Refusal::bad("length", "`Content-Length` is not one number");
pub(crate) const LOST_ON_THE_WAY: Refusal = Refusal::bad(
    "connection",
    "`Connection` names a header that does not concern the connection and would be lost",
);
pub(crate) const OTHER_UPGRADE: Refusal =
    Refusal::bad("upgrade", "only upgrades to `websocket` and `SPDY/3.1` are supported");
/// `Upgrade` counts only if `Connection` names it (RFC 9110, 7.8).
pub(crate) const UNASKED_UPGRADE: Refusal =
    Refusal::bad("upgrade", "`Upgrade` needs `Connection: Upgrade`");
/// Nothing says where the body ends and the other protocol begins.
pub(crate) const UPGRADE_WITH_BODY: Refusal =
    Refusal::bad("upgrade", "an upgrade with a body is not supported");
/// Trailers arrive after everything else was checked and sent.
pub(crate) const TRAILERS: Refusal =
    Refusal::bad("trailers", "trailers after a request's body are not supported");
pub(crate) const BROKEN_BODY: Refusal =
    Refusal::bad("body", "the request's body broke off, or its chunks are malformed");
/// The rules of a grant are about the path as the server reads it.
pub(crate) const ODD_PATH: Refusal = Refusal::bad(
    "grant",
    "the path can be read in two ways: it has an empty part, `.`, `..`, or an escape that is not \
     needed in a name",
);
pub(crate) const ODD_QUERY: Refusal = Refusal::bad(
    "grant",
    "the query can be read in two ways: it has `;`, an incomplete escape, or `watch` twice",
);
pub(crate) const ENDED: Refusal =
    Refusal::forbidden("grant", "the grant was revoked or has expired");
pub(crate) const GRANT_IMPERSONATION: Refusal = Refusal::forbidden(
    "impersonation",
    "the request impersonates another user (`--as`); a consumer of a grant never impersonates",
);
pub(crate) const GRANT_AUTHORIZATION: Refusal = Refusal::forbidden(
    "authorization",
    "the request carries its own authorization; a consumer of a grant has only its certificate",
);
