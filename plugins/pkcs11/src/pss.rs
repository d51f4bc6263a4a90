//! RSA paddings in software, for tokens that have the bare RSA operation alone.

use keyward_plugin::{Hash, Refusal};
use keyward_protocol::der;
use sha2::{Digest, Sha256, Sha384, Sha512};

/// The digest of all parts, one after the other.
pub(crate) fn digest(hash: Hash, parts: &[&[u8]]) -> Vec<u8> {
    fn of<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
        let mut state = D::new();
        for part in parts {
            state.update(part);
        }
        state.finalize().to_vec()
    }
    match hash {
        Hash::Sha256 => of::<Sha256>(parts),
        Hash::Sha384 => of::<Sha384>(parts),
        Hash::Sha512 => of::<Sha512>(parts),
    }
}

/// What PKCS#1 v1.5 signs: the digest, with the name of its hash before it.
pub(crate) fn digest_info(hash: Hash, digest: &[u8]) -> Vec<u8> {
    let last = match hash {
        Hash::Sha256 => 1,
        Hash::Sha384 => 2,
        Hash::Sha512 => 3,
    };
    let name = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, last];
    let algorithm = der::element(der::SEQUENCE, &[&der::element(der::OID, &[&name]), der::NULL]);
    der::element(der::SEQUENCE, &[&algorithm, &der::element(der::OCTET_STRING, &[digest])])
}

/// EMSA-PKCS1-v1_5 (RFC 8017, 9.2) for a modulus of so many bits.
pub(crate) fn encode_v15(hash: Hash, digest: &[u8], bits: usize) -> Result<Vec<u8>, Refusal> {
    let info = digest_info(hash, digest);
    let filling = bits.div_ceil(8).checked_sub(info.len() + 3).filter(|&n| n >= 8);
    let filling = filling.ok_or_else(|| too_short(bits))?;
    Ok([&[0, 1][..], &vec![0xff; filling], &[0], &info].concat())
}

/// EMSA-PSS (RFC 8017, 9.1.1) for a modulus of so many bits. The salt is as long as the hash.
pub(crate) fn encode_pss(
    hash: Hash,
    digest_of_message: &[u8],
    salt: &[u8],
    bits: usize,
) -> Result<Vec<u8>, Refusal> {
    let size = bits.div_ceil(8);
    // One bit less than the modulus: when that fills whole bytes, the first byte stays zero.
    let used = bits.checked_sub(1).ok_or_else(|| too_short(bits))?;
    let length = used.div_ceil(8);
    let block_length = length.checked_sub(hash.length() + 1).ok_or_else(|| too_short(bits))?;
    let filling = block_length.checked_sub(salt.len() + 1).ok_or_else(|| too_short(bits))?;
    let seed = digest(hash, &[&[0; 8], digest_of_message, salt]);
    let mut block = [&vec![0; filling][..], &[1], salt].concat();
    for (byte, mask) in block.iter_mut().zip(mask(hash, &seed, block_length)) {
        *byte ^= mask;
    }
    block[0] &= 0xff >> (8 * length - used);
    Ok([&vec![0; size - length][..], &block, &seed, &[0xbc]].concat())
}

/// MGF1
fn mask(hash: Hash, seed: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length + hash.length());
    for count in 0_u32.. {
        if out.len() >= length {
            break;
        }
        out.extend(digest(hash, &[seed, &count.to_be_bytes()]));
    }
    out.truncate(length);
    out
}

fn too_short(bits: usize) -> Refusal {
    Refusal::Unsupported(format!("an RSA key of {bits} bits is too short for this hash"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_padded_block_is_as_long_as_the_modulus_and_below_it() {
        for bits in [1024, 2047, 2048, 2049, 3072] {
            let block = encode_pss(Hash::Sha256, &[7; 32], &[9; 32], bits).unwrap();
            assert_eq!(block.len(), bits.div_ceil(8));
            assert_eq!(block.last(), Some(&0xbc));
            // The highest bit of the number is below the highest bit of the modulus.
            let zeros = block.iter().take_while(|&&b| b == 0).count();
            let used = 8 * (block.len() - zeros) - block[zeros].leading_zeros() as usize;
            assert!(used < bits, "{used} of {bits}");
        }
    }

    #[test]
    fn a_key_too_short_for_the_hash_is_refused() {
        for bits in [0, 1, 8] {
            assert!(encode_pss(Hash::Sha256, &[7; 32], &[9; 32], bits).is_err(), "{bits}");
            assert!(encode_v15(Hash::Sha256, &[7; 32], bits).is_err(), "{bits}");
        }
        assert!(encode_pss(Hash::Sha512, &[7; 64], &[9; 64], 1024).is_err());
        assert!(encode_v15(Hash::Sha512, &[7; 64], 512).is_err());
    }

    #[test]
    fn the_digest_info_is_der() {
        let info = digest_info(Hash::Sha384, &[7; 48]);
        assert_eq!(usize::from(info[1]), info.len() - 2);
        assert_eq!(encode_v15(Hash::Sha384, &[7; 48], 2048).unwrap().len(), 256);
    }
}
