//! Why a request got no response, and whether it may be sent again.

use std::error::Error as StdError;

use http::{Method, Request};

use crate::{Body, Error, error::Kind};

/// A request without a response.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The request, if none of it was sent. It may go to any other connection as it is.
    pub(crate) unsent: Option<Box<Request<Body>>>,
    /// A copy of the request may be sent: the server has not acted on it, or sending it twice does
    /// no harm.
    pub(crate) again: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, unsent: None, again: false }
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
            again: true,
        }
    }

    /// The request was on its way. `used`: the connection had carried others before.
    pub(super) fn lost(error: hyper::Error, method: &Method, used: bool) -> Self {
        let again = is_untouched(&error) || (used && is_harmless(method) && is_gone(&error));
        let cut_off =
            is_gone(&error) || find::<h2::Error>(&error).is_some_and(h2::Error::is_remote);
        let kind = if cut_off { Kind::Lost } else { Kind::Http };
        Self {
            error: Error::because(kind, "the request got no response", error),
            unsent: None,
            again,
        }
    }
}

/// Whether the peer said that it has not acted on the request: a GOAWAY without an error that
/// leaves this stream out, or a stream refused.
fn is_untouched(error: &hyper::Error) -> bool {
    let Some(error) = find::<h2::Error>(error) else {
        return false;
    };
    error.is_remote()
        && ((error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR))
            || (error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM)))
}

/// Whether the connection ended, rather than the peer answered something wrong. On one that had
/// been idle the server may have closed it just as the request went out.
fn is_gone(error: &hyper::Error) -> bool {
    error.is_incomplete_message()
        || error.is_closed()
        || error.is_canceled()
        || find::<std::io::Error>(error).is_some()
        || find::<h2::Error>(error).is_some_and(h2::Error::is_io)
}

/// The methods that Go, too, sends again.
fn is_harmless(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
