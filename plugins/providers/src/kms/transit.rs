//! Keys in the transit engine of OpenBao and Vault.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Request, header};
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::{Secret, pem::Blocks, text::inline};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};

use super::{Backend, scheme::Scheme, target::TransitKey};
use crate::{
    Call,
    http::{Http, Trust, require_https, shown},
};

/// A key, and who asks for it.
pub(super) struct Transit<'a> {
    http: Http,
    url: String,
    token: Secret,
    namespace: Option<String>,
    key: &'a TransitKey,
}

impl<'a> Transit<'a> {
    /// Finds the server and the token as the servers' own tools do: OpenBao's variables first, then Vault's.
    pub(super) fn open(call: &Call, key: &'a TransitKey) -> Result<Self, Refusal> {
        let var = |name: &str| {
            ["BAO", "VAULT"].iter().find_map(|tool| call.var(&format!("{tool}_{name}")))
        };
        let url = var("ADDR").ok_or_else(|| {
            Refusal::bad_config("`BAO_ADDR` or `VAULT_ADDR` has to name the server")
        })?;
        require_https(&url, "`BAO_ADDR` or `VAULT_ADDR`")?;
        call.note("endpoint", shown(&url));
        let token = match var("TOKEN") {
            Some(token) => {
                call.used("environment", "`BAO_TOKEN` or `VAULT_TOKEN`");
                Secret::new(token.trim())
            }
            None => {
                call.skipped("environment", "neither `BAO_TOKEN` nor `VAULT_TOKEN` is set");
                of_file(call)?
            }
        };
        let mut trust = Trust::default();
        if let Some(path) = var("CACERT") {
            let pem = file::read(path.as_ref(), &Limits::NAMED.at_most(1 << 20));
            let found = pem.ok().and_then(|pem| {
                CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>().ok()
            });
            let found = found.filter(|found| !found.is_empty()).ok_or_else(|| {
                Refusal::BadConfig(format!(
                    "`{}`, which `BAO_CACERT` or `VAULT_CACERT` names, has no certificate in PEM",
                    inline(&path)
                ))
            })?;
            trust.authorities = found;
        }
        let http = Http::new(call, trust);
        let namespace = key.namespace.clone().or_else(|| var("NAMESPACE"));
        Ok(Self { http, url: url.trim_end_matches('/').to_owned(), token, namespace, key })
    }

    fn ask(&self, path: &str, body: Option<&Value>) -> Result<Value, Refusal> {
        let url = format!("{}/v1/{}/{path}/{}", self.url, self.key.mount, self.key.name);
        let unusable = |what: &str| Refusal::BadConfig(format!("the {what} cannot be in a header"));
        let mut token =
            HeaderValue::from_str(self.token.expose()).map_err(|_| unusable("token"))?;
        token.set_sensitive(true);
        let request = if body.is_some() { Request::post(&url) } else { Request::get(&url) };
        let mut request = request
            .header("X-Vault-Token", token)
            .header("X-Vault-Request", "true")
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(namespace) = &self.namespace {
            let value = HeaderValue::from_str(namespace).map_err(|_| unusable("namespace"))?;
            request = request.header("X-Vault-Namespace", value);
        }
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = request.body(body).map_err(Refusal::failed)?;
        let response = self.http.call(request).map_err(Refusal::failed)?;
        let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        if response.status() == 200 {
            return Ok(answer["data"].clone());
        }
        let errors = answer["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let errors = errors.collect::<Vec<_>>().join("; ");
        let errors = inline(&errors.replace(self.token.expose(), "[hidden]"));
        let text = format!("`{}` answered {} {errors}", shown(&url), response.status());
        Err(match response.status().as_u16() {
            401 | 403 => Refusal::NotAllowed(text),
            400 | 404 => Refusal::BadConfig(text),
            _ => Refusal::Failed(text),
        })
    }

    fn unreadable(&self) -> Refusal {
        Refusal::Failed(format!("`{}` answered in a way that cannot be read", shown(&self.url)))
    }
}

impl Backend for Transit<'_> {
    fn name(&self) -> String {
        format!("`{}` of the engine `{}`", self.key.name, self.key.mount)
    }

    fn public_key(&self) -> Result<Vec<u8>, Refusal> {
        let data = self.ask("keys", None)?;
        let version = self.key.version.or_else(|| data["latest_version"].as_u64());
        let version = version.ok_or_else(|| self.unreadable())?;
        let pem = data["keys"][version.to_string()]["public_key"].as_str().unwrap_or_default();
        let block = Blocks::of(pem.as_bytes()).find(|block| block.label == "PUBLIC KEY");
        let block = block.ok_or_else(|| {
            Refusal::BadConfig(format!(
                "version {version} of {} has no public key: it does not exist, or is no RSA or ECDSA key",
                self.name()
            ))
        })?;
        Ok(block.content.to_vec())
    }

    fn sign(&self, scheme: Scheme, digest: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (algorithm, hash) = match scheme {
            Scheme::Pss(hash) => ("pss", hash),
            Scheme::Pkcs1(hash) => ("pkcs1v15", hash),
            Scheme::Ecdsa(hash) => ("", hash),
        };
        let mut body = json!({
            "input": STANDARD.encode(digest),
            "prehashed": true,
            "hash_algorithm": format!("sha2-{}", hash.length() * 8),
        });
        if algorithm.is_empty() {
            body["marshaling_algorithm"] = "asn1".into();
        } else {
            body["signature_algorithm"] = algorithm.into();
            body["salt_length"] = "hash".into();
        }
        if let Some(version) = self.key.version {
            body["key_version"] = version.into();
        }
        let data = self.ask("sign", Some(&body))?;
        // `vault:v1:…`
        let signature = data["signature"].as_str().and_then(|text| text.rsplit(':').next());
        let signature = signature.and_then(|text| STANDARD.decode(text).ok());
        signature.filter(|bytes| !bytes.is_empty()).ok_or_else(|| self.unreadable())
    }
}

/// The token that `bao login` or `vault login` left.
fn of_file(call: &Call) -> Result<Secret, Refusal> {
    let path = call.surroundings.home().map(|home| home.join(".vault-token"));
    let token =
        path.as_deref().and_then(|path| file::read(path, &Limits::NAMED.at_most(64 << 10)).ok());
    let token = token.map(|bytes| bytes.trim_ascii().to_vec()).filter(|token| !token.is_empty());
    match token {
        Some(token) => {
            call.used("file `~/.vault-token`", "a token");
            Ok(Secret::from_bytes(token))
        }
        None => Err(Refusal::bad_config(
            "there is no token for OpenBao or Vault\n\n\
             hint: log in with `bao login` or `vault login`, or set `BAO_TOKEN` or `VAULT_TOKEN`",
        )),
    }
}
