//! A reader of HTTP/1.1 requests that takes what the rules allow and nothing else (RFC 9112).

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names in lower case, in order.
    pub(crate) headers: Vec<Field>,
    pub(crate) body: Vec<u8>,
    /// After a chunked body, as the headers.
    pub(crate) trailers: Vec<Field>,
}

pub(crate) enum Read {
    /// A request, and how many bytes it took.
    Whole(Message, usize),
    /// More has to come.
    Partial,
    /// Not a request, and nothing after it can be one.
    Wrong(&'static str),
}

impl Message {
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| &value[..])
    }

    /// The path and query of the target, whichever form it has; a fragment is no part of it.
    pub(crate) fn path(&self) -> String {
        let target = self
            .target
            .strip_prefix("https://")
            .map_or(&self.target[..], |rest| rest.find('/').map_or("/", |slash| &rest[slash..]));
        target.split('#').next().unwrap_or_default().to_owned()
    }
}

/// All requests up to the first that is none, and why it is none.
pub(crate) fn all(mut bytes: &[u8]) -> (Vec<Message>, Option<&'static str>) {
    let mut found = Vec::new();
    loop {
        match read(bytes) {
            Read::Whole(message, used) => {
                found.push(message);
                bytes = &bytes[used..];
            }
            Read::Partial => return (found, None),
            Read::Wrong(why) => return (found, Some(why)),
        }
    }
}

pub(crate) fn read(bytes: &[u8]) -> Read {
    // Line breaks before a request are forgiven, and a line feed alone is one (RFC 9112, 2.2).
    let mut blank = 0;
    loop {
        match &bytes[blank..] {
            [b'\n', ..] => blank += 1,
            [b'\r', b'\n', ..] => blank += 2,
            _ => break,
        }
    }
    let text = &bytes[blank..];
    let ends = [find(text, b"\n\r\n").map(|at| (at, 3)), find(text, b"\n\n").map(|at| (at, 2))];
    let Some((end, tail)) = ends.into_iter().flatten().min() else {
        return Read::Partial;
    };
    // Bytes beyond ASCII may stand in a value, and are nobody's business on the way.
    let head: String = text[..end].iter().map(|byte| char::from(*byte)).collect();
    let mut lines = head.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = first[..] else {
        return Read::Wrong("the first line has not three words");
    };
    let version = match version {
        "HTTP/1.1" => 1,
        "HTTP/1.0" => 0,
        _ => return Read::Wrong("the version"),
    };
    if !is_token(method) || target.is_empty() || !target.bytes().all(|b| b.is_ascii_graphic()) {
        return Read::Wrong("the first line");
    }
    let Some(headers) = lines.map(field).collect::<Option<Vec<_>>>() else {
        return Read::Wrong("a header");
    };
    let mut message = Message {
        method: method.into(),
        target: target.into(),
        headers,
        body: Vec::new(),
        trailers: Vec::new(),
    };
    let after = blank + end + tail;
    let codings: Vec<String> = message.values("transfer-encoding").map(str::to_owned).collect();
    let lengths: Vec<String> = message.values("content-length").map(str::to_owned).collect();
    match (&codings[..], &lengths[..]) {
        ([], []) => Read::Whole(message, after),
        ([], [first, rest @ ..]) => {
            let number =
                first.bytes().all(|b| b.is_ascii_digit()) && rest.iter().all(|r| r == first);
            let Some(length) = number.then(|| first.parse::<usize>().ok()).flatten() else {
                return Read::Wrong("the length");
            };
            match bytes.get(after..after + length) {
                None => Read::Partial,
                Some(body) => {
                    message.body = body.to_vec();
                    Read::Whole(message, after + length)
                }
            }
        }
        // Whoever says a length beside it is up to something; RFC 9112 lets us read on all the same.
        ([coding], _) if version == 1 && coding.eq_ignore_ascii_case("chunked") => {
            match chunks(&bytes[after..]) {
                Ok(Some((body, trailers, used))) => {
                    (message.body, message.trailers) = (body, trailers);
                    Read::Whole(message, after + used)
                }
                Ok(None) => Read::Partial,
                Err(why) => Read::Wrong(why),
            }
        }
        _ => Read::Wrong("the transfer coding"),
    }
}

/// A name in lower case, and its value.
type Field = (String, String);

/// The body, the trailers, and how many bytes they took; `None` when more has to come.
type Chunks = Result<Option<(Vec<u8>, Vec<Field>, usize)>, &'static str>;

fn chunks(bytes: &[u8]) -> Chunks {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let Some(end) = find(&bytes[at..], b"\r\n") else { return Ok(None) };
        let line = &bytes[at..at + end];
        if line.contains(&b'\r') || line.contains(&b'\n') {
            return Err("a chunk's size");
        }
        // What an extension says is for a recipient that knows it, and all others ignore it; only the
        // end of the line, which was looked for above, is about framing.
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let digits = std::str::from_utf8(digits).map_err(|_| "a chunk's size")?;
        let digits = digits.trim_end_matches([' ', '\t']);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("a chunk's size");
        }
        let size = usize::from_str_radix(digits, 16).map_err(|_| "a chunk's size")?;
        at += end + 2;
        if size == 0 {
            break;
        }
        let Some(data) = at.checked_add(size).and_then(|end| bytes.get(at..end)) else {
            return Ok(None);
        };
        body.extend_from_slice(data);
        at += size;
        match bytes.get(at..at + 2) {
            None => return Ok(None),
            Some(b"\r\n") => at += 2,
            Some(_) => return Err("a chunk's end"),
        }
    }
    // A line feed alone is no end of a line here: what follows it might be the next request.
    let mut trailers = Vec::new();
    loop {
        let Some(end) = find(&bytes[at..], b"\r\n") else { return Ok(None) };
        if end == 0 {
            return Ok(Some((body, trailers, at + 2)));
        }
        let line: String = bytes[at..at + end].iter().map(|byte| char::from(*byte)).collect();
        trailers.push(field(&line).ok_or("a trailer")?);
        at += end + 2;
    }
}

fn field(line: &str) -> Option<Field> {
    let (name, value) = line.split_once(':')?;
    let value = value.trim_matches([' ', '\t']);
    let good = is_token(name) && value.bytes().all(|b| !b.is_ascii_control() || b == b'\t');
    good.then(|| (name.to_ascii_lowercase(), value.to_owned()))
}

/// A response, without its body.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) code: u16,
    headers: Vec<Field>,
}

impl Response {
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }
}

/// The whole final responses to requests with these methods, in order.
pub(crate) fn responses<'a>(
    mut bytes: &[u8],
    mut methods: impl Iterator<Item = &'a str>,
) -> Result<Vec<Response>, String> {
    let mut found = Vec::new();
    while let Some(end) = find(bytes, b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let code = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
        let code: u16 = code.ok_or_else(|| format!("no response: {first}"))?;
        let headers = lines.map(field).collect::<Option<Vec<_>>>();
        let headers = headers.ok_or_else(|| format!("no headers: {head}"))?;
        bytes = &bytes[end + 4..];
        if code < 200 {
            continue;
        }
        let response = Response { code, headers };
        let length = response.value("content-length").and_then(|value| value.parse().ok());
        // Requests that are none are answered too, once.
        let bare = methods.next() == Some("HEAD");
        let length = if bare { 0 } else { length.unwrap_or(0) };
        found.push(response);
        let Some(rest) = bytes.get(length..) else { break };
        bytes = rest;
    }
    Ok(found)
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
