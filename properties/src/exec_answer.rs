//! What a plugin prints, in all versions, and what it is told.

use keyward_host::Pair;
use keyward_protocol::{
    exec::{Answer, Form, Request, Version},
    time::whole_second,
};

use crate::{MARK, budget, mark};

pub(crate) fn check(input: &[u8]) {
    for version in Version::ALL {
        match budget::within(input, || Answer::read(input, version)) {
            Err(error) => mark::hidden(&format!("{error} {error:?}")),
            Ok(answer) => accepted(&answer),
        }
    }
    if let Err(error) = budget::within(input, || Request::read(input)) {
        mark::hidden_if_secret(input, &format!("{error:?}"));
    }
}

/// An accepted answer has a credential, hides it, and has the same after it was written and read.
fn accepted(answer: &Answer) {
    assert!(answer.token.is_some() || answer.pair.is_some());
    if !answer.pair.as_ref().is_some_and(|pair| pair.certificate.contains(MARK)) {
        mark::hidden(&format!("{answer:?}"));
    }
    for form in [Form::ExecCredential, Form::ExecInfo] {
        let written = answer.to_json(form);
        let read = Answer::read(written.expose().as_bytes(), answer.version);
        assert_eq!(read.as_ref().map(|read| &read.token), Ok(&answer.token));
        assert_eq!(read.as_ref().map(|read| &read.pair), Ok(&answer.pair));
        if form == Form::ExecCredential {
            // Times are written in whole seconds, as the reference writes them, and never before
            // the year 0, which an offset can lead to.
            let year_0 = -62_167_219_200;
            let second =
                |answer: &Answer| answer.expires.map(|time| whole_second(time).max(year_0));
            assert_eq!(read.as_ref().map(second), Ok(second(answer)));
        }
    }
    if let Some(pem) = &answer.pair
        && let Err(error) = Pair::parse(&pem.certificate, &pem.key)
    {
        mark::hidden(&format!("{error} {error:?}"));
    }
}
