//! The request of a client that runs this program as its plugin.

use keyward_process::surroundings::Surroundings;
use keyward_protocol::exec::{REQUEST_VARIABLE, Request, Version};

use crate::failure::Failure;

/// The request in the environment, if there is one.
pub(crate) fn read(surroundings: &Surroundings) -> Result<Option<Request>, Failure> {
    let Some(text) = surroundings.var(REQUEST_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let reading = Request::read(text.as_encoded_bytes()).map_err(|wrong| {
        Failure::usage(format!("the request in `{REQUEST_VARIABLE}` cannot be read"))
            .note("cause", wrong.to_string())
            .note("known are", Version::ALL.map(Version::api_version).join(", "))
            .hint("`--api-version` sets the version of the answer, whatever the request says")
    })?;
    Ok(Some(reading.request))
}
