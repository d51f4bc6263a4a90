//! A certificate authority that the kubeconfig names is never replaced by the system's.

#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs, reason = "a test that cannot go on fails")]

use std::{fs, path::Path};

use keyward_host::{Kubeconfig, Overrides, Surroundings, Target};
use rustix::fs::{CWD, FileType, Mode, mknodat};

fn target(authority: &Path) -> Target {
    let text = format!(
        "current-context: c\n\
         contexts: [{{name: c, context: {{cluster: c}}}}]\n\
         clusters:\n\
         - name: c\n  \
           cluster:\n    \
             server: https://api.example\n    \
             certificate-authority: {}\n",
        authority.display()
    );
    let kubeconfig = Kubeconfig::from_bytes(text.as_bytes()).unwrap();
    kubeconfig.resolve(&Overrides::default(), &Surroundings::process()).unwrap()
}

#[test]
fn an_empty_authority_is_an_error_that_names_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("ca.pem");
    fs::write(&empty, "").unwrap();
    // Its writer is late: to us it is empty.
    let pipe = directory.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for file in [&empty, Path::new("/dev/null"), &pipe] {
        let error = target(file).check_authority().unwrap_err().to_string();
        assert!(error.contains("`certificate-authority` is empty"), "{error}");
        assert!(error.contains(&format!("`{}`", file.display())), "{error}");
        assert!(error.contains("line 7"), "{error}");
        assert!(error.contains("or remove the field"), "{error}");
    }
}
