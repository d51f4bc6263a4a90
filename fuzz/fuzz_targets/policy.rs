//! A kuberc: whatever it is, it is a policy or an error of configuration.
//!
//! Besides not crashing: an allowlist that was read is one that can be said again.

#![no_main]

use keyward_host::{Kind, rules::Policy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| match Policy::from_kuberc(content) {
    Err(error) => assert_eq!(error.kind(), Kind::BadConfig),
    Ok(Policy::Allowlist(list)) => assert!(Policy::new("Allowlist", Some(list)).is_ok()),
    Ok(_) => {}
});
