//! A certificate authority that the kubeconfig names is never replaced by the system's.

#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs, reason = "a test that cannot go on fails")]

use std::{fs, path::Path, thread};

use keyward_host::{Kubeconfig, Overrides, Target};
use keyward_process::surroundings::Surroundings;
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
    // A pipe that is written to, but with nothing; one that nobody writes to times out, which the reader of
    // files tests.
    let pipe = directory.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let path = pipe.clone();
    let writer = thread::spawn(move || {
        // As often as the file is read.
        while path.exists() {
            drop(fs::OpenOptions::new().write(true).open(&path));
        }
    });
    for file in [&empty, Path::new("/dev/null"), &pipe] {
        let error = target(file).check_authority().unwrap_err().to_string();
        assert!(error.contains("`certificate-authority` is empty"), "{error}");
        assert!(error.contains(&format!("`{}`", file.display())), "{error}");
        assert!(error.contains("line 7"), "{error}");
        assert!(error.contains("or remove the field"), "{error}");
    }
    // Wakes the writer if it waits for a reader.
    let reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    fs::remove_file(&pipe).unwrap();
    writer.join().unwrap();
    drop(reader);
}
