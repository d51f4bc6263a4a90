//! A kubeconfig: whatever it is, it is read, resolved and written, or an error with its problems.
//!
//! Besides not crashing: what is written reads back as the same, merging with itself changes
//! nothing, and every problem of a text is in it.

#![no_main]

use std::sync::LazyLock;

use keyward_host::{Kubeconfig, Overrides, Surroundings, surroundings::Fixed};
use libfuzzer_sys::fuzz_target;

static NOWHERE: LazyLock<Surroundings> =
    LazyLock::new(|| Surroundings::fixed(Fixed { cwd: "/nowhere".into(), ..Fixed::default() }));

fuzz_target!(|text: &[u8]| {
    let mut config = match Kubeconfig::from_bytes(text) {
        Ok(config) => config,
        Err(error) => {
            let lines = text.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
            assert!(!error.problems().is_empty());
            // Other scripts have line breaks of their own, of two or three bytes.
            let most = lines + text.len() / 2 + 1;
            assert!(error.problems().iter().all(|problem| problem.place.line as usize <= most));
            return;
        }
    };
    // Files named by a stranger are not opened: one could be a device that never ends.
    for cluster in &mut config.clusters {
        cluster.value.certificate_authority.clear();
    }
    for user in &mut config.users {
        user.value.token_file.clear();
        user.value.client_certificate.clear();
        user.value.client_key.clear();
    }
    let written = config.to_json();
    let twice = Kubeconfig::merge([config.clone(), config.clone()]);
    assert!(twice.to_json() == written);
    // The second time, because there are numbers (-0.0) that are not the same after the first.
    let again = Kubeconfig::from_bytes(written.expose().as_bytes()).expect("it was written by us");
    let written = again.to_json();
    let again = Kubeconfig::from_bytes(written.expose().as_bytes()).expect("it was written by us");
    assert!(again.to_json() == written);
    let _ = config.minify(None);
    if let Ok(target) = config.resolve(&Overrides::default(), &NOWHERE) {
        let _ = target.check();
    }
});
