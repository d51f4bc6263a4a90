//! Patterns and images made up so that many of them are near each other.

/// A small generator of numbers: the same seed, the same numbers, everywhere.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        let end = list.len() as u64;
        let place = usize::try_from(self.below(end)).unwrap_or_default();
        list[place]
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// Patterns, and images to try them with.
pub struct Group {
    pub patterns: Vec<String>,
    pub images: Vec<String>,
}

impl Group {
    pub fn new(chance: &mut Chance) -> Self {
        // Most of a group agrees in what must be equal, or hardly anything would match.
        let labels = 1 + chance.below(4);
        let port = chance.pick(&["", "", ":5000"]);
        let patterns = (0..=chance.below(96)).map(|_| pattern(chance, labels, port)).collect();
        let images = (0..64).map(|_| image(chance, labels, port)).collect();
        Self { patterns, images }
    }
}

/// Short pieces of few letters: overlaps, repetitions and prefixes of each other come by themselves.
const PIECES: &[&str] = &["a", "b", "ab", "ba", "aa", "aba", "bab", "a-1", ""];
const PATHS: &[&str] = &["/a", "/a/", "/ab", "/a/b", "/b", "/a:1", "/a@1", "/"];
/// What goes through a URL parser in ways of its own, or not at all.
const ODD: &[&str] = &[
    "[::1]",
    "[::1]:5000",
    "[::1%25a]:5000",
    "[::1%25%c3]:5000",
    "[::1%25]",
    "[:a]:5000",
    "[a",
    "a]",
    "[ab]",
    "[a-b]",
    "[^a]b",
    "[a]*:5000",
    "*[ab]:1",
    "%61",
    "%41b",
    "%25",
    "%c3%a4",
    "ä",
    "*ä*",
    "[ä]",
    "a%zz",
    "a b",
    "a^b",
    "{a}",
    "a|b",
    "a\\b",
    "u@",
    "u:p@",
    "@",
    "?a",
    "#a",
    "a?b",
    "a#b",
    "a:b",
    "a::5000",
    ":5000",
    ":",
    "https://",
    "A",
    "~",
    "a!b",
    "\u{1}",
    "<a>",
    "\"",
    "a&b",
    "/%61",
    "/%2f",
    "/%",
    "/a%2Fb",
    "/ä",
    "//",
    "a..b",
    ".",
];

fn pattern(chance: &mut Chance, labels: u64, port: &str) -> String {
    let mut text = String::new();
    let labels = if chance.one_in(12) { 1 + chance.below(5) } else { labels };
    for number in 0..labels {
        if number > 0 {
            text.push('.');
        }
        match chance.below(16) {
            0..8 => text.push('*'),
            8 => text.push_str(chance.pick(PIECES)),
            9 | 10 => {
                text.push_str(chance.pick(PIECES));
                text.push('*');
            }
            11 | 12 => {
                text.push('*');
                text.push_str(chance.pick(PIECES));
            }
            _ => {
                for _ in 0..=chance.below(3) {
                    text.push_str(chance.pick(PIECES));
                    text.push('*');
                }
                text.push_str(chance.pick(PIECES));
            }
        }
    }
    text.push_str(if chance.one_in(12) { ":80" } else { port });
    if chance.one_in(6) {
        text.push_str(chance.pick(PATHS));
    }
    spoil(chance, text, 24)
}

fn image(chance: &mut Chance, labels: u64, port: &str) -> String {
    let mut text = String::new();
    let labels = if chance.one_in(24) { 1 + chance.below(5) } else { labels };
    for number in 0..labels {
        if number > 0 {
            text.push('.');
        }
        for _ in 0..=chance.below(4) {
            text.push_str(chance.pick(PIECES));
        }
    }
    text.push_str(if chance.one_in(24) { ":80" } else { port });
    for _ in 0..chance.below(3) {
        text.push_str(chance.pick(PATHS));
    }
    spoil(chance, text, 24)
}

/// Now and then something odd somewhere.
fn spoil(chance: &mut Chance, mut text: String, rarity: u64) -> String {
    if chance.one_in(rarity) {
        let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        let at = chance.pick(&places);
        text.insert_str(at, chance.pick(ODD));
    } else if chance.one_in(rarity * 2) {
        chance.pick(ODD).clone_into(&mut text);
    }
    text
}
