//! The one thing that kubectl sends in protocol buffers and in nothing else: an approval.

use serde_json::{Value, json};

use super::store::now;

/// The media type of Kubernetes' protobuf encoding.
pub(super) const MEDIA: &str = "application/vnd.kubernetes.protobuf";

/// What Kubernetes writes before an object.
const MAGIC: &[u8] = b"k8s\0";

/// The status of a `CertificateSigningRequest`, with its conditions; certificates come from here, so
/// none is read. `None` when it cannot be read.
pub(super) fn approval(body: &[u8]) -> Option<Value> {
    let envelope = fields(body.strip_prefix(MAGIC)?)?;
    let object = fields(last(&envelope, 2)?)?;
    let status = last(&object, 3).map_or(Some(Vec::new()), fields)?;
    let conditions = status.iter().filter(|(number, _)| *number == 1);
    let conditions: Option<Vec<Value>> = conditions.map(|(_, bytes)| condition(bytes)).collect();
    Some(json!({ "status": { "conditions": conditions? } }))
}

fn condition(bytes: &[u8]) -> Option<Value> {
    let fields = fields(bytes)?;
    let text = |number| String::from_utf8(last(&fields, number).unwrap_or_default().to_vec()).ok();
    Some(json!({
        "type": text(1)?, "reason": text(2)?, "message": text(3)?, "status": text(6)?,
        "lastUpdateTime": now(), "lastTransitionTime": now(),
    }))
}

type Fields<'a> = Vec<(u64, &'a [u8])>;

fn last<'a>(fields: &Fields<'a>, number: u64) -> Option<&'a [u8]> {
    fields.iter().rev().find(|(found, _)| *found == number).map(|(_, bytes)| *bytes)
}

/// The fields of a message that have a length: texts, bytes and messages. Numbers are left out.
fn fields(mut bytes: &[u8]) -> Option<Fields<'_>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        match key & 7 {
            0 => drop(varint(&mut bytes)?),
            1 => bytes = bytes.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                found.push((key >> 3, value));
                bytes = rest;
            }
            5 => bytes = bytes.get(4..)?,
            _ => return None,
        }
    }
    Some(found)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    #[test]
    fn the_conditions_of_an_approval_are_read() {
        let condition = [field(1, b"Approved"), field(2, b"Fine"), field(6, b"True")].concat();
        let object = [field(1, &field(1, b"name")), field(3, &field(1, &condition))].concat();
        let body = [MAGIC, &field(1, b"type"), &field(2, &object)].concat();
        let read = approval(&body).unwrap();
        assert_eq!(read["status"]["conditions"][0]["type"], "Approved");
        assert_eq!(read["status"]["conditions"][0]["reason"], "Fine");
        for length in 0..body.len() {
            // Cut anywhere it is unreadable, or has less in it; it never panics.
            drop(approval(&body[..length]));
        }
    }
}
