//! Keys in AWS KMS.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_plugin::Refusal;
use keyward_protocol::Secret;
use serde_json::{Value, json};

use super::{Backend, scheme::Scheme};
use crate::{
    Call,
    aws::{Aws, Keys, Operation, no_region},
    http::shown,
};

/// A key, and who asks for it.
pub(super) struct Kms<'a> {
    aws: Aws<'a>,
    keys: Keys,
    key: &'a str,
    region: String,
    url: String,
}

/// The host of the API of AWS KMS in a region.
pub fn api_host(region: &str) -> String {
    let domain = match region.split('-').next() {
        Some("cn") => "amazonaws.com.cn",
        Some("eusc") => "amazonaws.eu",
        Some("us") if region.starts_with("us-isob-") => "sc2s.sgov.gov",
        Some("us") if region.starts_with("us-isof-") => "csp.hci.ic.gov",
        Some("us") if region.starts_with("us-iso-") => "c2s.ic.gov",
        Some("eu") if region.starts_with("eu-isoe-") => "cloud.adc-e.uk",
        _ => "amazonaws.com",
    };
    format!("kms.{region}.{domain}")
}

impl<'a> Kms<'a> {
    /// Opens AWS KMS for a key, with the credentials that the `aws` command would use.
    pub(super) fn open(
        call: &'a Call,
        key: &'a str,
        region: Option<&str>,
        profile: Option<&str>,
    ) -> Result<Self, Refusal> {
        let aws = Aws::open(call, call.question()?, profile, region)?;
        let region = aws.region().ok_or_else(no_region)?;
        let keys = aws.keys()?;
        let url = aws.endpoint("KMS").unwrap_or_else(|| format!("https://{}", api_host(&region)));
        call.note("endpoint", shown(&url));
        Ok(Self { aws, keys, key, region, url })
    }

    fn ask(&self, name: &str, body: &Value) -> Result<Value, Refusal> {
        let operation = Operation {
            service: "kms",
            region: &self.region,
            target: &format!("TrentService.{name}"),
            what: "the key",
        };
        let answer: Secret =
            self.aws.call_json(operation, &self.url, &self.keys, &body.to_string())?;
        serde_json::from_str(answer.expose()).map_err(|_| self.unreadable())
    }

    fn bytes(&self, answer: &Value, name: &str) -> Result<Vec<u8>, Refusal> {
        let bytes = answer[name].as_str().and_then(|text| STANDARD.decode(text).ok());
        bytes.filter(|bytes| !bytes.is_empty()).ok_or_else(|| self.unreadable())
    }

    fn unreadable(&self) -> Refusal {
        Refusal::Failed(format!("`{}` answered in a way that cannot be read", shown(&self.url)))
    }
}

impl Backend for Kms<'_> {
    fn name(&self) -> String {
        format!("`{}` in AWS KMS, `{}`", self.key, self.region)
    }

    fn public_key(&self) -> Result<Vec<u8>, Refusal> {
        let answer = self.ask("GetPublicKey", &json!({ "KeyId": self.key }))?;
        self.bytes(&answer, "PublicKey")
    }

    fn sign(&self, scheme: Scheme, digest: &[u8]) -> Result<Vec<u8>, Refusal> {
        let body = json!({
            "KeyId": self.key,
            "Message": STANDARD.encode(digest),
            "MessageType": "DIGEST",
            "SigningAlgorithm": algorithm(scheme),
        });
        let answer = self.ask("Sign", &body)?;
        self.bytes(&answer, "Signature")
    }
}

fn algorithm(scheme: Scheme) -> String {
    let (name, hash) = match scheme {
        Scheme::Pss(hash) => ("RSASSA_PSS", hash),
        Scheme::Pkcs1(hash) => ("RSASSA_PKCS1_V1_5", hash),
        Scheme::Ecdsa(hash) => ("ECDSA", hash),
    };
    format!("{name}_SHA_{}", hash.length() * 8)
}
