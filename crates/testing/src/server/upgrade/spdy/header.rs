//! Header blocks of SPDY/3.1: names and values, compressed with a dictionary that both sides know.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// The first part of the dictionary: each word with its length before it.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding \
    accept-language accept-ranges age allow authorization cache-control connection content-base \
    content-encoding content-language content-length content-location content-md5 content-range \
    content-type date etag expect expires from host if-match if-modified-since if-none-match \
    if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate \
    proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url \
    public set-cookie keep-alive origin";

/// The second part, as it is.
const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416\
    417502504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad \
    Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not \
    Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 \
    Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,\
    application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,\
    deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// The largest block taken, unpacked.
const LIMIT: usize = 64 * 1024;

fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in WORDS.split_whitespace() {
        let word = word.replace('_', " ");
        put(&mut bytes, word.as_bytes());
    }
    bytes.extend_from_slice(TEXT.as_bytes());
    bytes
}

/// Names and values in order.
pub(crate) type Headers = Vec<(String, String)>;

/// Unpacks the blocks of one direction, which are one stream of compressed data.
pub(crate) struct Unpacker(Decompress);

impl Unpacker {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// `None` when the block is broken; nothing behind it can be read then.
    pub(crate) fn read(&mut self, mut block: &[u8]) -> Option<Headers> {
        let mut plain = Vec::with_capacity(1024);
        loop {
            let (read, made) = (self.0.total_in(), self.0.total_out());
            let status = self.0.decompress_vec(block, &mut plain, FlushDecompress::Sync);
            let used = usize::try_from(self.0.total_in() - read).ok()?;
            block = block.get(used..)?;
            match status {
                Ok(Status::StreamEnd) => break,
                Ok(_) if plain.len() == plain.capacity() => {
                    if plain.len() >= LIMIT {
                        return None;
                    }
                    plain.reserve(plain.len());
                }
                Ok(_) if block.is_empty() || (used == 0 && made == self.0.total_out()) => break,
                Ok(_) => {}
                Err(error) => {
                    error.needs_dictionary()?;
                    self.0.set_dictionary(&dictionary()).ok()?;
                }
            }
        }
        parse(&plain)
    }
}

/// Packs the blocks of the other direction.
pub(crate) struct Packer(Compress);

impl Packer {
    pub(crate) fn new() -> Self {
        let mut compress = Compress::new(Compression::fast(), true);
        // Fails on a stream that has begun; this one has not.
        let _ = compress.set_dictionary(&dictionary());
        Self(compress)
    }

    pub(crate) fn write(&mut self, headers: &[(&str, &str)]) -> Option<Vec<u8>> {
        let mut plain = Vec::new();
        plain.extend_from_slice(&u32::try_from(headers.len()).ok()?.to_be_bytes());
        for (name, value) in headers {
            put(&mut plain, name.as_bytes());
            put(&mut plain, value.as_bytes());
        }
        // Blocks made here are small: twice the size and a little is always enough.
        let mut block = Vec::with_capacity(2 * plain.len() + 1024);
        self.0.compress_vec(&plain, &mut block, FlushCompress::Sync).ok()?;
        Some(block)
    }
}

fn put(bytes: &mut Vec<u8>, text: &[u8]) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(text);
}

fn parse(mut plain: &[u8]) -> Option<Headers> {
    let count = take_number(&mut plain)?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let name = take_text(&mut plain)?;
        let value = take_text(&mut plain)?;
        headers.push((name.to_ascii_lowercase(), value));
    }
    Some(headers)
}

fn take_text(plain: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take_number(plain)?).ok()?;
    let (text, rest) = plain.split_at_checked(length)?;
    *plain = rest;
    String::from_utf8(text.to_vec()).ok()
}

fn take_number(plain: &mut &[u8]) -> Option<u32> {
    let (number, rest) = plain.split_first_chunk()?;
    *plain = rest;
    Some(u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_dictionary_has_the_length_the_protocol_gives_it() {
        assert_eq!(dictionary().len(), 1423);
    }

    #[test]
    fn blocks_are_one_stream_in_each_direction() {
        let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
        for round in ["one", "two", "three"] {
            let block = packer.write(&[("streamtype", "data"), ("port", round)]).unwrap();
            let headers = unpacker.read(&block).unwrap();
            assert_eq!(headers[0], ("streamtype".to_owned(), "data".to_owned()));
            assert_eq!(headers[1].1, round);
        }
        assert!(unpacker.read(b"nonsense").is_none());
    }

    #[test]
    fn a_block_that_says_too_much_is_refused() {
        assert_eq!(parse(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, b'a']), None);
        assert_eq!(parse(&[0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(parse(&[]), None);
    }
}
