//! Chance that can be had again.

/// Numbers that look random and come again with the same seed (`SplitMix64`).
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// Whether it happened this time, of so many.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of all.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap_or_default()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_always_the_same_numbers_and_others_have_others() {
        let numbers = |seed| {
            let mut chance = Chance::new(seed);
            [chance.number(), chance.number()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        let mut chance = Chance::new(1);
        let picked: Vec<u8> = (0..100).map(|_| *chance.pick(&[1, 2, 3])).collect();
        assert!([1, 2, 3].iter().all(|one| picked.contains(one)));
    }
}
