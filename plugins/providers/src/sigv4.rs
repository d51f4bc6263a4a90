//! Signatures of AWS, version 4.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableRequest, SigningInstructions, SigningSettings, sign as sign_request},
    sign::v4,
};
use aws_smithy_runtime_api::client::identity::Identity;
use jiff::Timestamp;
use keyward_plugin::Refusal;

/// Signs a request to a service in a region: what has to be added to it.
pub(crate) fn sign(
    keys: Credentials,
    (service, region): (&str, &str),
    now: Timestamp,
    settings: SigningSettings,
    request: SignableRequest<'_>,
) -> Result<SigningInstructions, Refusal> {
    let identity: Identity = keys.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(SystemTime::from(now))
        .settings(settings)
        .build()
        .map_err(Refusal::failed)?
        .into();
    Ok(sign_request(request, &params).map_err(Refusal::failed)?.into_parts().0)
}
