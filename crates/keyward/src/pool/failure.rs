//! Why a request got no response, and whether it may be sent again.

use std::error::Error as StdError;

use http::{Method, Request};
use keyward_protocol::text::causes;

use crate::{Body, Error, error::Kind};

/// A request without a response.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The request, if none of it was sent. It may go to any other connection unchanged.
    pub(crate) unsent: Option<Box<Request<Body>>>,
    /// A copy of the request may be sent: the server has not acted on it, or sending it twice is harmless.
    pub(crate) retryable: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, unsent: None, retryable: false }
    }
}

impl Failure {
    pub(super) fn unsent(error: hyper::Error, request: Request<Body>) -> Self {
        Self {
            error: Error::because(
                Kind::Lost,
                "the connection ended before the request was sent",
                error,
            ),
            unsent: Some(Box::new(request)),
            retryable: true,
        }
    }

    /// The failure of a request that was in flight. `used`: the connection had carried others before.
    pub(super) fn lost(error: hyper::Error, method: &Method, used: bool) -> Self {
        let retryable = is_untouched(&error) || (used && is_harmless(method) && is_gone(&error));
        let cut_off =
            is_gone(&error) || find::<h2::Error>(&error).is_some_and(h2::Error::is_remote);
        let kind = if cut_off { Kind::Lost } else { Kind::Http };
        Self {
            error: Error::because(kind, "the request got no response", error),
            unsent: None,
            retryable,
        }
    }
}

/// Whether the peer announced that it has not acted on the request: by a GOAWAY without an error that
/// excludes this stream, or by refusing the stream.
fn is_untouched(error: &hyper::Error) -> bool {
    let Some(error) = find::<h2::Error>(error) else {
        return false;
    };
    error.is_remote()
        && ((error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR))
            || (error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM)))
}

/// Whether the connection ended, rather than the peer sent a bad answer. A server may close an idle
/// connection just as the request goes out.
fn is_gone(error: &hyper::Error) -> bool {
    error.is_incomplete_message()
        || error.is_closed()
        || error.is_canceled()
        || find::<std::io::Error>(error).is_some()
        || find::<h2::Error>(error).is_some_and(h2::Error::is_io)
}

/// Whether Go, too, would send this method again.
fn is_harmless(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    error.downcast_ref().or_else(|| causes(error).find_map(|cause| cause.downcast_ref()))
}
