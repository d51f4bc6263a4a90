//! The metadata server of Compute Engine, GKE and Cloud Run.

use std::{fs, time::Duration};

use http::Request;
use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

use super::{
    Google, Token,
    oauth::{read_token, refused, shown},
};
use crate::http::{Http, HttpError, Trust, form};

/// The address of the metadata server. The name is not resolved, because a resolver elsewhere might know another server of that name.
const ADDRESS: &str = "169.254.169.254";

const FLAVOR: (&str, &str) = ("Metadata-Flavor", "Google");

/// What the machine says it is.
const PRODUCT: &str = "/sys/class/dmi/id/product_name";

/// How long to wait for a server that most machines do not have.
const DETECT: Duration = Duration::from_secs(1);

/// How long to wait for one that exists. On GKE it may have to ask another one.
const ANSWER: Duration = Duration::from_secs(10);

impl Google<'_> {
    /// The token of the machine's or the pod's service account. Only with `thorough` is the network asked whether
    /// there is such a server.
    pub(super) fn metadata(&self, thorough: bool) -> Result<Option<Token>, Refusal> {
        let source = "metadata server";
        if self.call.var("NO_GCE_CHECK").as_deref() == Some("true") {
            return self.call.skip(source, "`NO_GCE_CHECK` is `true`");
        }
        if !self.has_metadata(thorough) {
            let why = "this machine is none of Google's, and `GCE_METADATA_HOST` is not set";
            return self.call.skip(source, why);
        }
        let path = "/computeMetadata/v1/instance/service-accounts/default/token";
        let mut url = format!("http://{}{path}", self.metadata_host());
        if !self.scopes.is_empty() {
            url = format!("{url}?{}", form(&[("scopes", &self.scopes.join(","))]));
        }
        let answer = self.ask_metadata(&url)?;
        let answer = serde_json::from_slice(&answer)
            .map_err(|_| Refusal::Failed(format!("what `{}` answered is no JSON", shown(&url))))?;
        let token = read_token(&url, &answer, self.call.clock.now())?;
        self.call.used(source, format!("`{}`, default account", inline(&self.metadata_host())));
        Ok(Some(token))
    }

    /// Asks the metadata server, twice if it is late.
    pub(crate) fn ask_metadata(&self, url: &str) -> Result<Vec<u8>, Refusal> {
        let http = self.metadata_http(ANSWER);
        let answer = get(&http, url).or_else(|_| get(&http, url)).map_err(|error| {
            Refusal::Failed(format!(
                "the metadata server gives no token: {error}\n\n\
                 hint: outside of Google Cloud, run `gcloud auth application-default login`"
            ))
        })?;
        if answer.status() != 200 {
            return Err(refused(url, answer.status().as_u16(), answer.body()));
        }
        is_google(&answer).then(|| answer.into_body()).ok_or_else(|| {
            Refusal::Failed(format!("`{}` is not a metadata server of Google", shown(url)))
        })
    }

    /// The server's host, and perhaps port.
    pub(crate) fn metadata_host(&self) -> String {
        let named = ["GCE_METADATA_HOST", "GCE_METADATA_ROOT"];
        named.iter().find_map(|name| self.call.var(name)).unwrap_or_else(|| ADDRESS.to_owned())
    }

    fn has_metadata(&self, thorough: bool) -> bool {
        if self.metadata_host() != ADDRESS {
            return true;
        }
        let product = fs::read_to_string(PRODUCT).unwrap_or_default();
        let ping = || {
            let answer = get(&self.metadata_http(DETECT), &format!("http://{ADDRESS}/"));
            answer.is_ok_and(|answer| is_google(&answer))
        };
        product.starts_with("Google") || (thorough && ping())
    }

    /// A client that never goes through a proxy, whatever the server is called.
    fn metadata_http(&self, limit: Duration) -> Http {
        Http::new(self.call, Trust::default()).near(limit)
    }
}

fn get(http: &Http, url: &str) -> Result<http::Response<Vec<u8>>, HttpError> {
    let request = Request::get(url).header(FLAVOR.0, FLAVOR.1).body(Vec::new());
    let request = request
        .map_err(|_| HttpError::text("`GCE_METADATA_HOST` is not the name of a host".into()))?;
    http.call(request)
}

fn is_google(answer: &http::Response<Vec<u8>>) -> bool {
    answer.headers().get(FLAVOR.0).is_some_and(|value| value.as_bytes() == FLAVOR.1.as_bytes())
}
