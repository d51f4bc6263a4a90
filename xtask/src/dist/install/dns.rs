//! A name server with one name, for a root whose `/etc/resolv.conf` names it.

use std::{
    io,
    net::{Ipv4Addr, UdpSocket},
    thread,
};

/// Answers on the port of name servers until the process ends: `name` is this machine, all others do not
/// exist.
pub(super) fn serve(name: &'static str) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53))?;
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            if let Some(answer) = answer(&query[..length], name) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    Ok(())
}

/// The answer to a query with one question (RFC 1035).
fn answer(query: &[u8], name: &str) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    let mut labels = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(str::from_utf8(query.get(at..at + length)?).ok()?.to_lowercase());
        at += length;
    }
    let question = query.get(HEADER..at + 4)?;
    let is_known = labels.join(".") == name;
    let is_address = query[at..at + 2] == [0, 1];
    let count = u8::from(is_known && is_address);
    let code = if is_known { 0 } else { 3 };
    let mut answer = query[..2].to_vec();
    // A response that recursion was wanted and is available for; one question, the answers, nothing else.
    answer.extend([0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]);
    answer.extend(question);
    if count == 1 {
        // The name of the question, an address of the Internet, five seconds, four bytes.
        answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::answer;

    #[test]
    fn only_the_address_of_the_known_name_is_answered() {
        let query = |name: &[u8], kind| {
            [&[7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], name, &[0, 0, kind, 0, 1]].concat()
        };
        let known = answer(&query(b"\x01a\x01b", 1), "a.b").unwrap();
        assert!(known.starts_with(&[7, 7, 0x81, 0x80]) && known.ends_with(&[127, 0, 0, 1]));
        let other_kind = answer(&query(b"\x01a\x01b", 28), "a.b").unwrap();
        assert_eq!(other_kind[3..8], [0x80, 0, 1, 0, 0]);
        assert_eq!(answer(&query(b"\x01a\x01c", 1), "a.b").unwrap()[3], 0x83);
        assert_eq!(answer(b"short", "a.b"), None);
    }
}
