//! Certificate requests, signed by the key they are about.

use keyward_plugin::{Options, Refusal};
use keyward_protocol::{
    der::Der,
    x509::{CertificateRequest, PublicKeyInfo},
};

use crate::{public::Public, verify};

/// The request in PEM. `sign` makes the signature.
pub(crate) fn build(
    user: &str,
    groups: &[String],
    public: &Public,
    sign: impl FnOnce(Options, &[u8]) -> Result<Vec<u8>, Refusal>,
) -> Result<String, Refusal> {
    let info = public.info();
    let request = PublicKeyInfo::read(&mut Der(&info))
        .and_then(|info| CertificateRequest::new(user, groups, &info))
        .ok_or_else(|| Refusal::failed("the token's public key cannot be in a request"))?;
    let options = request.options();
    let signature = sign(options, &verify::to_sign(options, request.body()))?;
    if !verify::verify(public, options, request.body(), &signature) {
        return Err(Refusal::failed("the token's signature is not one of this key"));
    }
    Ok(request.finish(&signature))
}
