//! Makes cases up: half by grammar, half by changing the vectors' inputs, so that odd corners are reached.

mod exec;
mod exec_input;
mod image;
mod kubeconfig;
mod kubelet;
mod mutate;
mod pick;
mod policy;
mod tree;

use serde_json::Value;

pub use pick::Rng;

/// An endless supply of cases of one area.
pub struct Generator {
    seeds: Vec<Value>,
    at: usize,
    rng: Rng,
    make: fn(&mut Rng) -> Value,
    words: &'static [&'static str],
}

impl Generator {
    /// Equal areas, seeds and numbers make equal cases.
    pub fn new(area: &str, mut seeds: Vec<Value>, number: u64) -> Self {
        seeds.iter_mut().for_each(bare);
        let (make, words): (fn(&mut Rng) -> Value, _) = match area {
            "exec-output" => (exec::output, exec::WORDS),
            "exec-input" => (exec_input::case, exec::WORDS),
            "exec-info-helper" => (exec::helper, exec::WORDS),
            "kubeconfig" => (kubeconfig::case, kubeconfig::WORDS),
            "plugin-policy" => (policy::case, policy::WORDS),
            "image-match" => (image::matching, image::WORDS),
            "keyring" => (image::keyring, image::WORDS),
            "kubelet-config" => (kubelet::config, kubelet::WORDS),
            "kubelet-request" => (kubelet::request, kubelet::WORDS),
            _ => (kubelet::response, kubelet::WORDS),
        };
        Self { seeds, at: 0, rng: Rng::new(number), make, words }
    }

    /// The next case: the vectors' own first.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> Value {
        if self.at < self.seeds.len() {
            self.at += 1;
            return self.seeds[self.at - 1].clone();
        }
        let rng = &mut self.rng;
        if self.seeds.is_empty() || rng.chance(55) {
            let mut case = (self.make)(rng);
            if rng.chance(20) {
                mutate::case(&mut case, rng, self.words);
            }
            return case;
        }
        let mut case = self.seeds[rng.below(self.seeds.len())].clone();
        for _ in 0..=rng.below(3) {
            mutate::case(&mut case, rng, self.words);
        }
        case
    }
}

/// Leaves of a vector what goes in.
pub(crate) fn bare(vector: &mut Value) {
    let Value::Object(fields) = vector else { return };
    if let Some(lookups) =
        fields.get("expect").and_then(|expect| expect["ok"]["lookups"].as_array())
    {
        let images = lookups.iter().map(|lookup| lookup["image"].clone()).collect();
        fields.insert("images".to_owned(), images);
    }
    for said in ["name", "note", "expect", "spoken", "match", "patternValid", "error"] {
        fields.remove(said);
    }
}
