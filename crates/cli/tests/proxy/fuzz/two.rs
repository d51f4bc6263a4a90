//! HTTP/2, several requests at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    thread,
    time::Duration,
};

use super::{
    Chance, Tongue, Wire,
    frame::{self, Frame},
    hpack::Table,
    odd::{Part, plain, request},
    whole,
};
use crate::{strict::Message, upstream::MARK};

/// A proxy that waits for more of a request is left alone after this.
const PATIENCE: Duration = Duration::from_millis(40);
/// Between two halves of what is sent, where it comes in two.
const PAUSE: Duration = Duration::from_millis(5);

pub(super) const TONGUE: Tongue = Tongue {
    protocol: "h2",
    script,
    read: |sent| whole::all(sent).unwrap_or_default(),
    talk,
    answered,
};

/// Sends it, and reads until every request has its answer.
fn talk(stream: &mut Wire, sent: &[u8], chance: &mut Chance) -> Vec<u8> {
    let wanted: BTreeSet<String> =
        whole::all(sent).unwrap_or_default().iter().map(number).collect();
    // Now and then the proxy is at work on a request when the rest of it comes.
    let cut = if chance.one_in(4) { chance.below(sent.len() as u64) } else { 0 };
    let (first, second) = sent.split_at(usize::try_from(cut).unwrap());
    // A proxy that finds fault may end the connection while more is written.
    let _ = stream.write_all(first);
    if cut > 0 {
        thread::sleep(PAUSE);
    }
    let _ = stream.write_all(second);
    stream.sock.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answers = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(size @ 1..) = stream.read(&mut piece) {
        answers.extend_from_slice(&piece[..size]);
        let (bodies, reset) = bodies(&answers);
        let done = |number: &String| {
            number
                .parse()
                .is_ok_and(|stream| bodies.contains_key(&stream) || reset.contains(&stream))
        };
        if wanted.iter().all(done) {
            break;
        }
    }
    answers
}

/// The answer on a stream is the answer to the request on it, or a refusal.
fn answered(requests: &[Message], answers: &[u8]) -> Result<(), String> {
    for (stream, body) in bodies(answers).0 {
        let text = String::from_utf8_lossy(&body);
        let Some(mark) = text.strip_suffix("ok\n") else {
            // Our own words, or those to a HEAD.
            let refused = text.is_empty() || text.contains("\"Failure\"");
            if !refused {
                return Err(format!("the answer on stream {stream} is {text:?}"));
            }
            continue;
        };
        let request = requests.iter().find(|request| number(request) == stream.to_string());
        let sent = request.map(|request| request.values(MARK).collect::<Vec<_>>().join(","));
        if sent.as_deref() != Some(mark) {
            return Err(format!("the answer on stream {stream} is to {mark:?}, not {sent:?}"));
        }
    }
    Ok(())
}

/// The bodies that are whole by their streams, and the streams that were reset.
fn bodies(mut answers: &[u8]) -> (BTreeMap<u32, Vec<u8>>, BTreeSet<u32>) {
    let mut under_way: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let (mut whole, mut reset) = (BTreeMap::new(), BTreeSet::new());
    while let Some((frame, rest)) = Frame::read(answers) {
        answers = rest;
        match frame.kind {
            frame::HEADERS => _ = under_way.entry(frame.stream).or_default(),
            frame::DATA => {
                let content = frame.content().unwrap_or_default();
                under_way.entry(frame.stream).or_default().extend_from_slice(content);
            }
            frame::RESET => _ = reset.insert(frame.stream),
            _ => {}
        }
        let carries = matches!(frame.kind, frame::HEADERS | frame::DATA);
        if carries && frame.has(frame::END_STREAM) {
            whole.insert(frame.stream, under_way.remove(&frame.stream).unwrap_or_default());
        }
    }
    (whole, reset)
}

fn number(request: &Message) -> String {
    request.values(whole::STREAM).next().unwrap_or_default().to_owned()
}

/// A connection's worth of requests: mostly by the rules, and then some. One that only a reader of the
/// whole Huffman code could judge is not sent.
fn script(chance: &mut Chance, host: &str, case: u64) -> Vec<u8> {
    loop {
        let mut out = frames(chance, host, case);
        if chance.one_in(4) {
            for _ in 0..=chance.below(2) {
                let place = usize::try_from(chance.below(out.len() as u64)).unwrap();
                let byte = u8::try_from(chance.below(256)).unwrap();
                match chance.below(4) {
                    0 => out.insert(place, byte),
                    1 => drop(out.remove(place)),
                    _ => out[place] = byte,
                }
            }
        }
        if whole::all(&out).is_some() {
            return out;
        }
    }
}

fn frames(chance: &mut Chance, host: &str, case: u64) -> Vec<u8> {
    let mut out = frame::PREFACE.to_vec();
    Frame::new(frame::SETTINGS, 0, 0, &[]).write(&mut out);
    let mut table = Table::default();
    let mut waiting: Vec<(u32, Vec<Part>)> = Vec::new();
    let mut stream = 1;
    for number in 0..=chance.below(3) {
        waiting.push((stream, request(chance, host, &format!("{case:09}-{number}"))));
        stream += if chance.one_in(20) { 4 } else { 2 };
    }
    waiting.push((
        stream,
        vec![Part::Fields(plain(host, "GET", "/last", &format!("{case:09}-last")), 1)],
    ));
    let mut begun = 0;
    while !waiting.is_empty() {
        if chance.one_in(16) {
            odd_frame(chance, stream).write(&mut out);
        }
        // Any that has begun, or the next to begin; out of order now and then.
        let reach = if chance.one_in(60) { waiting.len() } else { (begun + 1).min(waiting.len()) };
        let place = usize::try_from(chance.below(reach as u64)).unwrap();
        begun = begun.max(place + 1);
        let (stream, parts) = &mut waiting[place];
        match parts.remove(0) {
            Part::Fields(fields, flags) => {
                let block = table.write(&fields, chance);
                headers(chance, *stream, flags, &block, &mut out);
            }
            Part::Data(bytes, flags) => data(chance, *stream, flags, &bytes, &mut out),
            Part::Reset(code) => {
                Frame::new(frame::RESET, 0, *stream, &code.to_be_bytes()).write(&mut out);
            }
        }
        if parts.is_empty() {
            waiting.remove(place);
            begun -= 1;
        }
    }
    out
}

/// A header block in one frame or several.
fn headers(chance: &mut Chance, stream: u32, flags: u8, block: &[u8], out: &mut Vec<u8>) {
    let cut =
        if chance.one_in(6) { chance.below(block.len() as u64 + 1) } else { block.len() as u64 };
    let (first, rest) = block.split_at(usize::try_from(cut).unwrap().min(frame::LIMIT - 300));
    let pieces: Vec<&[u8]> = rest.chunks(frame::LIMIT).collect();
    let mut flags = flags | if pieces.is_empty() { frame::END_HEADERS } else { 0 };
    let mut payload = Vec::new();
    let padding = if chance.one_in(10) { chance.below(200) } else { 0 };
    if padding > 0 {
        flags |= frame::PADDED;
        payload.push(u8::try_from(padding).unwrap());
    }
    if chance.one_in(10) {
        flags |= frame::WEIGHTED;
        payload.extend_from_slice(&[0, 0, 0, 0, 15]);
    }
    payload.extend_from_slice(first);
    payload.resize(payload.len() + usize::try_from(padding).unwrap(), 0);
    Frame::new(frame::HEADERS, flags, stream, &payload).write(out);
    for (place, piece) in pieces.iter().enumerate() {
        let last = if place + 1 == pieces.len() { frame::END_HEADERS } else { 0 };
        Frame::new(frame::CONTINUATION, last, stream, piece).write(out);
    }
}

fn data(chance: &mut Chance, stream: u32, flags: u8, bytes: &[u8], out: &mut Vec<u8>) {
    if chance.one_in(10) {
        let payload = [&[3], bytes, &[0; 3]].concat();
        Frame::new(frame::DATA, flags | frame::PADDED, stream, &payload).write(out);
    } else {
        Frame::new(frame::DATA, flags, stream, bytes).write(out);
    }
}

/// A frame that belongs to no request, by the rules or not.
fn odd_frame(chance: &mut Chance, last: u32) -> Frame {
    let stream = u32::try_from(chance.below(u64::from(last) + 3)).unwrap();
    match chance.below(14) {
        0 => Frame::new(frame::PING, 0, 0, b"whatever"),
        1 => Frame::new(frame::PING, 0, 0, b"short"),
        2 => Frame::new(frame::WINDOW, 0, 0, &[0, 0, 1, 0]),
        3 => Frame::new(frame::WINDOW, 0, stream, &[0; 4]),
        4 => Frame::new(frame::PRIORITY, 0, stream, &[0, 0, 0, 0, 1]),
        5 => Frame::new(frame::SETTINGS, frame::ACK, 0, &[]),
        6 => Frame::new(frame::SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]),
        7 => Frame::new(frame::SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]),
        8 => Frame::new(frame::CONTINUATION, frame::END_HEADERS, stream, &[]),
        9 => Frame::new(frame::DATA, 0, stream, b"GET /smuggled HTTP/1.1\r\n\r\n"),
        10 => Frame::new(frame::PUSH, frame::END_HEADERS, stream, &[0, 0, 0, 2]),
        11 => Frame::new(frame::GO_AWAY, 0, 0, &[0; 8]),
        12 => Frame::new(frame::RESET, 0, stream, &[0, 0, 0, 8]),
        _ => Frame::new(0xbb, 0xff, stream, b"unknown"),
    }
}
