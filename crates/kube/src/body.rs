//! Converts kube's request bodies. A body in memory can still be sent again.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use http_body::Body as _;
use keyward::Body;

pub(crate) fn convert(body: kube::client::Body) -> Body {
    if body.is_end_stream() {
        return Body::empty();
    }
    // Only a body in memory can be cloned, and only its first frame has data.
    let Some(copy) = body.try_clone() else {
        return Body::stream(body);
    };
    match pin!(copy).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            Ok(bytes) => Body::from(bytes),
            Err(_) => Body::stream(body),
        },
        _ => Body::stream(body),
    }
}

#[cfg(test)]
mod tests {
    use keyward::Replay;

    use super::*;

    #[test]
    fn a_body_in_memory_can_still_be_sent_again() {
        let body = convert(kube::client::Body::from(b"some bytes".to_vec()));
        assert_eq!(body.size_hint().exact(), Some(10));
        assert!(body.replay().is_some());
        assert!(convert(kube::client::Body::empty()).is_end_stream());
    }
}
