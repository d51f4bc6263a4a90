//! Reads the peer's first SETTINGS frame as it passes, to learn how many streams the peer allows.
//!
//! hyper reports the number only after a stream was opened, and by then a burst of requests has queued
//! up on a connection that may never have room for them. What later frames say is taken from hyper, in
//! `open_h2` of `connection`.

use tokio::io::AsyncRead;
use tokio_util::io::InspectReader;

const HEADER: usize = 9;
const SETTINGS: u8 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;
/// The longest first frame to parse: settings are few, and six bytes each.
const LONGEST: usize = 1024;

/// How many streams the peer allows; `None` is no limit.
pub(super) type Allowed = Option<u32>;

/// A stream whose first inbound frame is parsed. `learn` is called once.
pub(super) fn settings_reader<T: AsyncRead>(
    stream: T,
    learn: impl FnOnce(Allowed),
) -> InspectReader<T, impl FnMut(&[u8])> {
    let mut looking = Some((Vec::new(), learn));
    InspectReader::new(stream, move |bytes| {
        let Some((mut seen, learn)) = looking.take() else {
            return;
        };
        seen.extend_from_slice(bytes);
        match first_frame(&seen) {
            Some(allowed) => learn(allowed),
            None => looking = Some((seen, learn)),
        }
    })
}

/// What the first frame says, once it is whole. hyper rejects a frame that is no SETTINGS, so nothing is
/// learnt from it.
fn first_frame(bytes: &[u8]) -> Option<Allowed> {
    let (&[a, b, c, kind, ..], rest) = bytes.split_first_chunk::<HEADER>()?;
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    if kind != SETTINGS || length > LONGEST {
        return Some(None);
    }
    let payload = rest.get(..length)?;
    // The last of several wins (RFC 9113, 6.5.3: in order).
    let allowed = payload
        .chunks_exact(6)
        .rfind(|entry| u16::from_be_bytes([entry[0], entry[1]]) == MAX_CONCURRENT_STREAMS)
        .map(|entry| u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]));
    Some(allowed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, Mutex};

    use tokio::io::AsyncReadExt;

    use super::*;

    async fn learnt(chunks: &[&[u8]]) -> Option<Allowed> {
        let found = Arc::new(Mutex::new(None));
        let keep = found.clone();
        let mut builder = chunks
            .iter()
            .fold(Box::new(tokio::io::empty()) as Box<dyn AsyncRead + Unpin>, |before, chunk| {
                Box::new(before.chain(std::io::Cursor::new(chunk.to_vec())))
            });
        let mut reader = settings_reader(&mut builder, move |allowed| {
            assert_eq!(keep.lock().unwrap().replace(allowed), None);
        });
        let mut all = Vec::new();
        reader.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, chunks.concat());
        found.lock().unwrap().take()
    }

    #[tokio::test]
    async fn the_limit_is_learnt_however_the_frame_is_cut() {
        let frame = b"\0\0\x0c\x04\0\0\0\0\0\0\x04\0\0\xff\xff\0\x03\0\0\0\x64rest";
        assert_eq!(learnt(&[frame]).await, Some(Some(100)));
        let (first, second) = frame.split_at(14);
        assert_eq!(learnt(&[first, second]).await, Some(Some(100)));
    }

    #[tokio::test]
    async fn settings_without_a_limit_and_other_frames_are_no_limit() {
        assert_eq!(learnt(&[b"\0\0\0\x04\0\0\0\0\0"]).await, Some(None));
        assert_eq!(learnt(&[b"\0\0\x08\x07\0\0\0\0\0"]).await, Some(None));
    }

    #[tokio::test]
    async fn nothing_is_learnt_from_half_a_frame() {
        assert_eq!(learnt(&[b"\0\0\x06\x04\0\0\0\0\0\0\x03\0"]).await, None);
    }
}
