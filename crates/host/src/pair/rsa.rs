//! RSA private keys: read, and checked to be consistent before anybody signs with them.

use std::cmp::Ordering;

use crypto_bigint::{BoxedUint, ConcatenatingMul as _, NonZero};
use keyward_protocol::der::{self, Der};
use zeroize::Zeroizing;

use super::key::PublicHalf;

/// In bytes. Beyond it nobody can sign, and the checks below would take their time.
const LARGEST: usize = 2048;

/// A PKCS#1 key; the outer `None` is something else.
pub(super) fn parse(block: &[u8]) -> Option<Result<PublicHalf, &'static str>> {
    let mut input = Der(block);
    let mut content = input.read(der::SEQUENCE)?;
    let version = content.small()?;
    let modulus = content.integer()?;
    let exponent = content.small()?;
    let [d, p, q] = [content.integer()?, content.integer()?, content.integer()?];
    let mut shortcuts = Vec::new();
    while shortcuts.len() < 3 && content.next_is(der::INTEGER) {
        shortcuts.push(content.integer()?);
    }
    let more_primes = content.next_is(der::SEQUENCE) && !content.read(der::SEQUENCE)?.is_empty();
    if !input.is_empty() || !content.is_empty() && content.any().is_none() {
        return None;
    }
    if version > 1 {
        return Some(Err("its version of PKCS#1 is not known"));
    }
    let numbers = [modulus, d, p, q].into_iter().chain(shortcuts.iter().copied());
    if numbers.into_iter().any(|bytes| bytes[0] & 0x80 != 0 || bytes == [0]) {
        return Some(Err("it contains a number that is not above zero"));
    }
    let trimmed = modulus.strip_prefix(&[0]).unwrap_or(modulus);
    if trimmed.len() > LARGEST {
        return Some(Err("its modulus is larger than 16384 bits"));
    }
    let key = PublicHalf::Rsa { modulus: trimmed.to_vec(), exponent };
    let numbers = Numbers {
        n: number(modulus),
        e: u64::try_from(exponent).unwrap_or_default(),
        d: number(d),
        p: number(p),
        q: number(q),
    };
    let shortcuts: Vec<_> = shortcuts.into_iter().map(number).collect();
    Some(match numbers.check(&shortcuts, more_primes) {
        Some(()) => Ok(key),
        None => Err("its RSA numbers do not fit together"),
    })
}

/// Wiped when dropped: all but the modulus are as good as the key.
type Number = Zeroizing<BoxedUint>;

struct Numbers {
    n: Number,
    e: u64,
    d: Number,
    p: Number,
    q: Number,
}

impl Numbers {
    /// What the reference checks: `None` is a key that cannot be right, or that is too easy to
    /// break.
    fn check(&self, shortcuts: &[Number], more_primes: bool) -> Option<()> {
        let Self { n, e, d, p, q } = self;
        let half = n.bits() / 2;
        hold(is_odd(n) && e % 2 == 1 && (3..1 << 31).contains(e) && less(d, n))?;
        if more_primes {
            return Some(());
        }
        hold(less(p, n) && less(q, n))?;
        hold(bool::from(remainder(&product(p, q), n)?.is_zero()))?;
        let one = BoxedUint::one();
        let (p1, q1) = (difference(p, &one), difference(q, &one));
        let (dp, dq) = (remainder(d, &p1)?, remainder(d, &q1)?);
        let e = BoxedUint::from(*e);
        hold(bool::from(remainder(&product(&dp, &e), &p1)?.is_one()))?;
        hold(bool::from(remainder(&product(&dq, &e), &q1)?.is_one()))?;
        match shortcuts {
            [for_p, for_q, inverse] => {
                hold(same(for_p, &dp) && same(for_q, &dq) && less(inverse, p))?;
                hold(bool::from(remainder(&product(inverse, q), p)?.is_one()))?;
            }
            _ => hold(is_odd(p))?,
        }
        let apart = if less(p, q) { difference(q, p) } else { difference(p, q) };
        hold(apart.bits() > half.saturating_sub(100) && apart.bits() > 0 && d.bits() > half)
    }
}

fn number(bytes: &[u8]) -> Number {
    let bytes = bytes.strip_prefix(&[0]).unwrap_or(bytes);
    Zeroizing::new(BoxedUint::from_be_slice_vartime(bytes))
}

fn product(a: &BoxedUint, b: &BoxedUint) -> Number {
    Zeroizing::new(a.concatenating_mul(b))
}

fn difference(a: &BoxedUint, b: &BoxedUint) -> Number {
    Zeroizing::new(a.wrapping_sub(b))
}

fn remainder(number: &BoxedUint, modulus: &BoxedUint) -> Option<Number> {
    let modulus: Option<NonZero<BoxedUint>> = modulus.to_nz().into();
    let modulus = Zeroizing::new(modulus?);
    Some(Zeroizing::new(number.rem(&modulus)))
}

fn less(a: &BoxedUint, b: &BoxedUint) -> bool {
    a.cmp_vartime(b) == Ordering::Less
}

fn same(a: &BoxedUint, b: &BoxedUint) -> bool {
    a.cmp_vartime(b) == Ordering::Equal
}

fn is_odd(number: &BoxedUint) -> bool {
    number.bit_vartime(0)
}

fn hold(condition: bool) -> Option<()> {
    condition.then_some(())
}
