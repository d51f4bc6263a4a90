//! What an image credential provider answers, and what it is asked.

use keyward_protocol::image::{Login, ProposalResponse, Request, Response, Version};

use crate::{MARK, budget, mark};

pub(crate) fn check(input: &[u8]) {
    for version in Version::ALL {
        match budget::within(input, || Response::read(input, version)) {
            Err(error) => mark::hidden(&format!("{error:?}")),
            Ok(response) => {
                let open = |(pattern, login): &(String, Login)| {
                    pattern.contains(MARK) || login.username.contains(MARK)
                };
                if !response.auth.iter().any(open) && !response.key.name().contains(MARK) {
                    mark::hidden(&format!("{response:?}"));
                }
                let written = response.to_json(version);
                let again = Response::read(written.expose().as_bytes(), version);
                assert_eq!(again, Ok(response));
            }
        }
    }
    match budget::within(input, || ProposalResponse::read(input)) {
        Err(error) => mark::hidden(&format!("{error:?}")),
        Ok(response) => {
            if !response.login.username.contains(MARK) {
                mark::hidden(&format!("{response:?}"));
            }
            let again = ProposalResponse::read(response.to_json().expose().as_bytes());
            assert_eq!(again.map(|again| again.login), Ok(response.login));
        }
    }
    match budget::within(input, || Request::read(input)) {
        Err(error) => mark::hidden_if_secret(input, &format!("{error} {error:?}")),
        Ok(request) => {
            let open =
                |(name, value): &(String, String)| name.contains(MARK) || value.contains(MARK);
            if !request.image.contains(MARK) && !request.annotations.iter().any(open) {
                mark::hidden(&format!("{request:?}"));
            }
            let again = Request::read(request.to_json().expose().as_bytes());
            let again = again.expect("it was written by us");
            assert_eq!((again.version, again.image), (request.version, request.image));
        }
    }
}
