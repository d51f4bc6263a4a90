//! A kubeconfig: it is read, resolved and written, or an error with all its problems.

use std::{path::Path, sync::LazyLock};

use keyward_agent::wrap::{self, Wrapping};
use keyward_host::{Error, Kubeconfig, Overrides};
use keyward_process::surroundings::{Fixed, Surroundings};

use crate::{budget, mark};

static NOWHERE: LazyLock<Surroundings> =
    LazyLock::new(|| Surroundings::fixed(Fixed { cwd: "/nowhere".into(), ..Fixed::default() }));

pub(crate) fn check(input: &[u8]) {
    let mut config = match budget::within(input, || Kubeconfig::from_bytes(input)) {
        Ok(config) => config,
        Err(error) => return refused(input, &error),
    };
    mark::hidden_if_secret(input, &format!("{config:?}"));
    wrapped(input);
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
    // The second time, because there are numbers (-0.0) that are not the same after the first.
    let again = Kubeconfig::from_bytes(written.expose().as_bytes()).expect("it was written by us");
    let written_again = again.to_json();
    let again = Kubeconfig::from_bytes(written_again.expose().as_bytes()).expect("likewise");
    assert!(again.to_json() == written_again, "it changes whenever it is written");
    let twice = Kubeconfig::merge([config.clone(), config.clone()]);
    assert!(twice.to_json() == written, "merging with itself changes it");
    let resolved = budget::within(input, || {
        if let Err(error) = config.minify(None) {
            mark::hidden_if_secret(input, &format!("{error} {error:?}"));
        }
        config.resolve(&Overrides::default(), &NOWHERE).and_then(|target| target.check())
    });
    if let Err(error) = resolved {
        mark::hidden_if_secret(input, &format!("{error} {error:?}"));
    }
}

/// A wrapped kubeconfig comes back byte for byte, and wrapping it again changes nothing.
fn wrapped(input: &[u8]) {
    let directory = Path::new("/nowhere");
    let wrapping = Wrapping { wrapper: "/opt/keyward-exec", directory, pins: &[], natives: &[] };
    // A stretched input says nothing new about edits.
    if input.len() > 1 << 13 {
        return;
    }
    let Ok(edited) = wrap::wrap(input, &wrapping, |_| true) else { return };
    assert!(wrap::undo(&edited.bytes, &edited.edits).as_deref() == Some(input));
    let again = wrap::wrap(&edited.bytes, &wrapping, |_| true).expect("it was written by us");
    assert!(again.edits.is_empty(), "it is wrapped twice");
    let loose = wrap::unwrap(&edited.bytes, |_| true);
    if let Ok(loose) = loose {
        assert!(wrap::wrapped_users(&loose.bytes).expect("it was written by us").is_empty());
    }
}

/// Every problem is told, with a line that the text has.
fn refused(input: &[u8], error: &Error) {
    mark::hidden_if_secret(input, &format!("{error} {error:?} {:?}", error.notes()));
    let lines = input.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    // Other scripts have line breaks of their own, of two or three bytes.
    let most = lines + input.len() / 2 + 1;
    assert!(!error.problems().is_empty());
    for problem in error.problems() {
        assert!(problem.place.line as usize <= most, "a problem in a line that is not there");
    }
    mark::hidden_if_secret(input, &format!("{:?}", error.problems()));
}
