//! `keyward-spiffe`: the identity of a workload from the SPIFFE Workload API, as a token or as a certificate.
//!
//! The crate `spiffe` implements the protocol. This program keeps nothing: SPIRE's agent on the same machine keeps and
//! renews what it issues.

mod flags;

use std::{process::ExitCode, time::Duration};

use jiff::{SignedDuration, Timestamp};
use keyward_plugin::{Credential, Refusal};
use keyward_protocol::{jwt::Claims, pem, text::inline, time::format_rfc3339, x509};
use spiffe::{JwtSvid, SpiffeId, WorkloadApiClient, WorkloadApiError, X509Svid};
use tokio::{runtime, time::timeout};
use zeroize::Zeroizing;

use self::flags::{FLAGS, USAGE};
use crate::{Call, flags::Flags};

/// How long the Workload API may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A credential's stated expiry is this much earlier than its real one, at most.
const MARGIN: SignedDuration = SignedDuration::from_secs(10);

/// The variable that names the socket, for all programs.
const SOCKET: &str = "SPIFFE_ENDPOINT_SOCKET";

pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let Some(flags) = call.flags(&[FLAGS], USAGE)? else { return Ok(ExitCode::SUCCESS) };
    if let Some(word) = flags.words().first() {
        return Err(call.no_command(word));
    }
    call.serve(|_| Request::new(call, &flags)?.credential(call))
}

/// What is asked of the Workload API.
struct Request {
    endpoint: String,
    audiences: Vec<String>,
    certificate: bool,
    id: Option<SpiffeId>,
    hint: Option<String>,
}

impl Request {
    fn new(call: &Call, flags: &Flags) -> Result<Self, Refusal> {
        let text = |name| flags.filled(name).map(str::to_owned);
        let endpoint = text("socket").or_else(|| call.var(SOCKET)).ok_or_else(|| {
            Refusal::BadConfig(format!(
                "neither `--socket` nor `{SOCKET}` names the socket of the Workload API, such as \
                 `unix:///run/spire/agent/api.sock`"
            ))
        })?;
        let endpoint =
            if endpoint.starts_with('/') { format!("unix://{endpoint}") } else { endpoint };
        let audiences: Vec<String> =
            flags.list("audience").iter().filter(|name| !name.is_empty()).cloned().collect();
        let certificate = flags.is_set("x509");
        if audiences.is_empty() && !certificate {
            return Err(Refusal::bad_config(
                "give `--audience` for a token, `--x509` for a certificate, or both",
            ));
        }
        let id = text("spiffe-id").map(|id| {
            SpiffeId::new(&id).map_err(|error| {
                Refusal::BadConfig(format!("`--spiffe-id` `{}`: {error}", inline(&id)))
            })
        });
        Ok(Self { endpoint, audiences, certificate, id: id.transpose()?, hint: text("hint") })
    }

    fn credential(&self, call: &Call) -> Result<Credential, Refusal> {
        let now = call.clock.now();
        call.note("Workload API", inline(&self.endpoint));
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Refusal::Failed(format!("no runtime: {error}")))?;
        let (token, certificate) = runtime.block_on(async {
            match timeout(LIMIT, self.fetch()).await {
                Ok(fetched) => fetched.map_err(|error| self.refused(&error)),
                Err(_) => Err(Refusal::Failed(format!(
                    "the Workload API at `{}` does not answer within {} s",
                    inline(&self.endpoint),
                    LIMIT.as_secs()
                ))),
            }
        })?;
        let mut ends = Vec::new();
        let mut credential = None;
        if self.certificate {
            let svid = self.choose(certificate, |svid| (svid.spiffe_id(), svid.hint()))?;
            let (made, end) = pair(&svid)?;
            let shown = format!("`{}` until {}", svid.spiffe_id(), format_rfc3339(end));
            call.used("X.509-SVID", shown);
            credential = Some(made);
            ends.push(end);
        }
        if !self.audiences.is_empty() {
            let svid = self.choose(token, |svid| (svid.spiffe_id(), svid.hint()))?;
            let end = Claims::read(svid.token()).and_then(|claims| claims.time("exp"));
            let end =
                end.ok_or_else(|| Refusal::failed("the JWT-SVID does not say when it ends"))?;
            let shown = format!("`{}` until {}", svid.spiffe_id(), format_rfc3339(end));
            call.used("JWT-SVID", shown);
            credential = Some(match credential {
                Some(pair) => pair.and_token(svid.token()),
                None => Credential::token(svid.token()),
            });
            ends.push(end);
        }
        let end = ends.into_iter().min().unwrap_or(now);
        let margin = MARGIN.min(end.duration_since(now) / 10).max(SignedDuration::ZERO);
        let credential = credential.ok_or_else(|| Refusal::failed("nothing was asked for"))?;
        Ok(credential.expires_at(end - margin))
    }

    async fn fetch(&self) -> Result<(Vec<JwtSvid>, Vec<X509Svid>), WorkloadApiError> {
        let client = WorkloadApiClient::connect_to(&self.endpoint).await?;
        let certificates =
            if self.certificate { client.fetch_all_x509_svids().await? } else { Vec::new() };
        let tokens = if self.audiences.is_empty() {
            Vec::new()
        } else {
            client.fetch_all_jwt_svids(&self.audiences, self.id.as_ref()).await?
        };
        Ok((tokens, certificates))
    }

    /// The first identity, or the one that the flags name.
    fn choose<T>(
        &self,
        all: Vec<T>,
        of: impl Fn(&T) -> (&SpiffeId, Option<&str>),
    ) -> Result<T, Refusal> {
        let names: Vec<String> = all.iter().map(|svid| of(svid).0.to_string()).collect();
        let wanted = |svid: &T| {
            let (id, hint) = of(svid);
            self.id.as_ref().is_none_or(|wanted| wanted == id)
                && self.hint.as_deref().is_none_or(|wanted| hint == Some(wanted))
        };
        all.into_iter().find(wanted).ok_or_else(|| {
            Refusal::NotAllowed(format!(
                "the workload has no identity that `--spiffe-id` and `--hint` match\n\nhint: it has `{}`",
                inline(&names.join("`, `"))
            ))
        })
    }

    fn refused(&self, error: &WorkloadApiError) -> Refusal {
        let endpoint = inline(&self.endpoint);
        let why = inline(&error.to_string());
        match error {
            WorkloadApiError::NoIdentityIssued | WorkloadApiError::PermissionDenied(_) => {
                Refusal::NotAllowed(format!(
                    "the Workload API at `{endpoint}` issues no identity to this process: {why}\n\n\
                     hint: register it, with SPIRE by `spire-server entry create`"
                ))
            }
            WorkloadApiError::Endpoint(_) => Refusal::BadConfig(format!(
                "`{endpoint}` is no address of a Workload API: {why}\n\n\
                 hint: it is like `unix:///run/spire/agent/api.sock` or `tcp://127.0.0.1:8081`"
            )),
            _ => Refusal::Failed(format!("the Workload API at `{endpoint}` cannot be used: {why}")),
        }
    }
}

/// The certificate chain with its key, and when it ends.
fn pair(svid: &X509Svid) -> Result<(Credential, Timestamp), Refusal> {
    let chain: String =
        svid.cert_chain().iter().map(|der| pem::encode("CERTIFICATE", der.as_bytes())).collect();
    let key = Zeroizing::new(pem::encode("PRIVATE KEY", svid.private_key().as_bytes()));
    let end = x509::Certificate::parse(svid.leaf().as_bytes()).map(|leaf| leaf.not_after);
    let end = end.ok_or_else(|| Refusal::failed("the X.509-SVID cannot be read"))?;
    Ok((Credential::certificate(chain, key.as_str()), end))
}
