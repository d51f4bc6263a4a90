//! HTTP/2 by hand: frames that no library would send.

use std::io::{Read, Write};

use crate::{
    Failure,
    wire::{Card, Stream},
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RESET: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GO_AWAY: u8 = 7;
pub const WINDOW: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// A frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let mut out = vec![length[1], length[2], length[3], kind, flags];
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// Header fields in their plainest form.
pub fn fields(all: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in all {
        block.push(0);
        for text in [name, value] {
            let length = text.len();
            if length < 127 {
                block.push(u8::try_from(length).unwrap_or(0));
            } else {
                block.push(127);
                let mut rest = length - 127;
                while rest >= 128 {
                    block.push(u8::try_from(rest % 128 + 128).unwrap_or(0));
                    rest /= 128;
                }
                block.push(u8::try_from(rest).unwrap_or(0));
            }
            block.extend(text.as_bytes());
        }
    }
    block
}

/// The fields of a GET.
pub fn get(card: &Card, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let path = format!("{}{path}", card.prefix);
    let mut all = vec![
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", card.host.as_str()),
        (":path", path.as_str()),
    ];
    all.extend(more);
    fields(&all)
}

/// A connection that has begun, with windows as large as they get.
pub fn begin(card: &Card) -> Result<Stream, Failure> {
    let mut stream = card.connect_h2()?;
    let mut out = PREFACE.to_vec();
    out.extend(frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]));
    out.extend(frame(WINDOW, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
    stream.write_all(&out)?;
    Ok(stream)
}

/// Whether this is answered by the headers of a 200, as the static table has it.
pub fn is_served(stream: &mut Stream, card: &Card, number: u32) -> bool {
    let head = frame(HEADERS, 5, number, &get(card, "/version", &[]));
    if stream.write_all(&head).is_err() {
        return false;
    }
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        while bytes.len() >= 9 {
            let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
            if bytes.len() < 9 + length {
                break;
            }
            let id = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
            match bytes[3] {
                HEADERS if id == number => return bytes.get(9) == Some(&0x88),
                GO_AWAY => return false,
                _ => {}
            }
            bytes.drain(..9 + length);
        }
        match stream.read(&mut piece) {
            Ok(size) if size > 0 => bytes.extend_from_slice(&piece[..size]),
            _ => return false,
        }
    }
}
