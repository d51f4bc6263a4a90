//! What must hold for every reader of untrusted input, beyond that it does not crash.
//!
//! Each target takes any bytes, gives them to a reader, and panics if a property does not hold:
//!
//! - reading stays within a budget of memory and time in proportion to the input (`budget`);
//! - no error and no `Debug` shows a marked secret (`mark`);
//! - what was written reads back the same, and two readers of one format agree.
//!
//! `fuzz/` runs the targets under a fuzzer; `tests/corpus.rs` runs them over `fuzz/corpus` on every
//! `cargo xtask test`.

mod agent_message;
mod budget;
mod docker_config;
mod exec_answer;
mod image_answer;
mod image_config;
mod json;
mod kubeconfig;
mod mark;
mod pem;
mod pkcs11_uri;
mod policy;
mod proxy_gate;
mod signer_message;
mod url;
mod yaml;

pub use mark::MARK;

/// A reader and the properties it must have.
pub struct Target {
    /// The name of its corpus and of its fuzz target.
    pub name: &'static str,
    check: fn(&[u8]),
}

/// Every target, in the order of their names.
pub const TARGETS: [Target; 14] = [
    Target { name: "agent_message", check: agent_message::check },
    Target { name: "docker_config", check: docker_config::check },
    Target { name: "exec_answer", check: exec_answer::check },
    Target { name: "image_answer", check: image_answer::check },
    Target { name: "image_config", check: image_config::check },
    Target { name: "json", check: json::check },
    Target { name: "kubeconfig", check: kubeconfig::check },
    Target { name: "pem", check: pem::check },
    Target { name: "pkcs11_uri", check: pkcs11_uri::check },
    Target { name: "policy", check: policy::check },
    Target { name: "proxy_gate", check: proxy_gate::check },
    Target { name: "signer_message", check: signer_message::check },
    Target { name: "url", check: url::check },
    Target { name: "yaml", check: yaml::check },
];

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Panics if a property does not hold for `input`, or for a long text made of it.
    ///
    /// Readers that are slow or wasteful show it only on long input, which a fuzzer does not try by
    /// itself. So one input in 1024 is stretched: more would take most of its time.
    pub fn check(&self, input: &[u8]) {
        (self.check)(input);
        if checksum(input).is_multiple_of(1024) {
            self.check_stretched(input, 1 << 16);
        }
    }

    /// Panics if a property does not hold for `input` with its middle repeated until it has `length`
    /// bytes: a list of very many items, a very long text, very deep nesting.
    pub fn check_stretched(&self, input: &[u8], length: usize) {
        let (first, rest) = input.split_at(input.len() / 3);
        let (middle, last) = rest.split_at(rest.len() / 2);
        if middle.is_empty() {
            return;
        }
        let times = length.saturating_sub(input.len()) / middle.len();
        let stretched = [first, &middle.repeat(1 + times), last].concat();
        (self.check)(&stretched);
    }
}

/// FNV-1a: the same input is always treated the same, so that a finding can be reproduced.
fn checksum(input: &[u8]) -> u32 {
    input.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
