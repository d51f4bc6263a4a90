//! The route to a context's server, with its identity, from one version of the kubeconfig.

use std::sync::Arc;

use keyward::{Client, client::Opened};
use keyward_host::{
    ExecPlugin, Kubeconfig, SignerPlugin, Source, Sources, Target, kubeconfig::Named,
};
use keyward_protocol::{Secret, text::inline};
use tokio::sync::watch;

use crate::{Config, Error, certificates};

/// The name under which kubeconfigs have external signers.
const SIGNER: &str = "externalSigner";

/// The route to a server.
pub(crate) struct Route {
    pub(crate) target: Target,
    pub(crate) client: Client,
    pub(crate) source: Source,
    /// Whether a plugin or another source has to be asked for a credential.
    pub(crate) runs: bool,
    /// The program that is run for it, if one is.
    pub(crate) program: Option<String>,
    /// Whether that may prompt at the terminal.
    pub(crate) asks: bool,
    /// Set when nothing may pass any more.
    pub(crate) closed: watch::Sender<bool>,
}

/// Opens routes; holds what all of them share.
pub(crate) struct Routes {
    pub(crate) config: Arc<dyn Config>,
    pub(crate) sources: Sources,
    pub(crate) refresh_on_403: bool,
}

impl Routes {
    /// The route to the server of a target. Runs nothing and opens no connection.
    pub(crate) fn open(&self, target: Target) -> Result<Route, Error> {
        let mut builder = Client::builder().without_defaults();
        if self.refresh_on_403 {
            builder = builder.refresh_on_403();
        }
        if certificates::is_authority(&target.cluster.value.certificate_authority_data) {
            return Err(leads_to_proxy(&target));
        }
        let Opened { client, source, plan } = self.config.open(target, builder, &self.sources)?;
        let asks = plan.plugin().is_some_and(|plugin| plugin.preview.attended());
        let runs = !plan.is_static();
        let program = plan.plugin().map(ExecPlugin::command);
        let program = program.or_else(|| plan.signer().map(SignerPlugin::command));
        let program = program.map(str::to_owned);
        let target = plan.target().clone();
        let (closed, _) = watch::channel(false);
        Ok(Route { target, client, source, runs, program, asks, closed })
    }
}

impl Route {
    /// The name in the kubeconfig; `None` if only flags, or the pod we run in, define it.
    pub(crate) fn context(&self) -> Option<String> {
        Some(self.target.context.clone()).filter(|name| !name.is_empty())
    }

    /// Whether an external signer authenticates connections.
    pub(crate) fn signs(&self) -> bool {
        let provider = self.target.user.value.auth_provider.as_ref();
        provider.is_some_and(|provider| provider.name == SIGNER)
    }

    /// Whether a route of another version leads to the same server, with the same identity and
    /// policy.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.source.same(&other.source)
            && text(&self.target).expose() == text(&other.target).expose()
    }
}

/// A proxy before a proxy would only hide whose credentials are used.
fn leads_to_proxy(target: &Target) -> Error {
    let context = inline(&target.context);
    let error = Error::usage(format!("context `{context}` already goes through a Keyward proxy"));
    let error = match &target.cluster.place.file {
        Some(file) => error.note("kubeconfig", format!("`{}`", file.display())),
        None => error,
    };
    error.hint(
        "use kubectl with this kubeconfig as it is, or give the proxy your own with \
         `--kubeconfig ~/.kube/config`",
    )
}

/// Everything that a target says of its cluster and user.
fn text(target: &Target) -> Secret {
    let mut config = Kubeconfig::default();
    config.clusters.push(Named::new("", target.cluster.value.clone()));
    config.users.push(Named::new("", target.user.value.clone()));
    config.to_json()
}
