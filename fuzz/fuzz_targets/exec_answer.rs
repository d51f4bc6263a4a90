//! What a plugin prints, in all versions: read, and where it is accepted, its key pair parsed.
//!
//! Besides not crashing: an accepted answer has a credential, and has the same after it was
//! written and read again.

#![no_main]

use keyward_host::pair::Pair;
use keyward_protocol::exec::{Answer, Form, Request, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stdout: &[u8]| {
    for version in Version::ALL {
        let Ok(answer) = Answer::read(stdout, version) else { continue };
        assert!(answer.token.is_some() || answer.pair.is_some());
        for form in [Form::ExecCredential, Form::ExecInfo] {
            let written = answer.to_json(form);
            let read = Answer::read(written.expose().as_bytes(), version);
            assert_eq!(read.as_ref().map(|read| &read.token), Ok(&answer.token));
            assert_eq!(read.as_ref().map(|read| &read.pair), Ok(&answer.pair));
        }
        if let Some(pem) = &answer.pair {
            let _ = Pair::parse(&pem.certificate, &pem.key);
        }
    }
    let _ = Request::read(stdout);
});
