//! What is said between a client and an external signer.

use keyward_protocol::signer::{Configuration, Request, Response};

use crate::{budget, mark};

pub(crate) fn check(input: &[u8]) {
    match budget::within(input, || Request::read(input)) {
        Err(error) => mark::hidden_if_secret(input, &format!("{error} {error:?}")),
        Ok(request) => {
            let written = request.to_json();
            assert!(!written.expose().contains('\n'), "a message is one line");
            assert_eq!(Request::read(written.expose().as_bytes()).as_ref(), Ok(&request));
            for (name, value) in request.configuration().into_iter().flat_map(Configuration::iter) {
                let shown = format!("{request:?}");
                let value = value.expose();
                assert!(
                    value.len() < 8 || name.contains(value) || !shown.contains(value),
                    "a value of the configuration is shown"
                );
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
