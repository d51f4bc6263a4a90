//! What is said between a client and an external signer.

use keyward_protocol::signer::{Configuration, Request, Response};

use crate::{MARK, budget, mark};

pub(crate) fn check(input: &[u8]) {
    match budget::within(input, || Request::read(input)) {
        Err(error) => mark::hidden_if_secret(input, &format!("{error} {error:?}")),
        Ok(request) => {
            let written = request.to_json();
            assert!(!written.expose().contains('\n'), "a message is one line");
            assert_eq!(Request::read(written.expose().as_bytes()).as_ref(), Ok(&request));
            // A value may well be a word that is shown anyway, such as the name of a field; the mark is none.
            let marked = |configuration: &Configuration| {
                configuration.iter().any(|(_, value)| value.expose().contains(MARK))
            };
            let elsewhere = written.expose().matches(MARK).count() > 1;
            if request.configuration().is_some_and(marked) && !elsewhere {
                mark::hidden(&format!("{request:?}"));
            }
        }
    }
    match budget::within(input, || Response::read(input)) {
        Err(error) => mark::hidden(&format!("{error} {error:?}")),
        Ok(response) => {
            let written = response.to_json();
            assert!(!written.contains('\n'), "a message is one line");
            assert_eq!(Response::read(written.as_bytes()).as_ref(), Ok(&response));
        }
    }
}
