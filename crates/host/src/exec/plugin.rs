//! The exec plugin of a plan: what is known about it now, and what is decided for each run.

use std::fmt;

use keyward_protocol::{
    Node,
    exec::{self, REQUEST_VARIABLE, Request, Response, Version},
    text,
};

use super::interactive;
use crate::{
    Error, Kind,
    error::inline,
    kubeconfig::{self, Exec, InteractiveMode, Target},
    plugin::{Preview, Role, RunContext, RunSettings, Spec},
    redact::url_passwords,
};

/// An exec plugin, as the kubeconfig has it and as it would run now.
pub struct ExecPlugin {
    pub(super) config: Config,
    /// What was found out when the plan was made.
    pub preview: Preview,
    /// What it would be told; `None` when a person is needed and cannot be asked.
    pub request: Option<Request>,
}

/// The configuration of an exec plugin, read.
pub(super) struct Config {
    exec: Exec,
    version: Version,
    cluster: Option<exec::Cluster>,
}

impl ExecPlugin {
    /// Looks at everything a run would look at, and returns what is in its way.
    pub(crate) fn new(
        exec: Exec,
        version: Version,
        target: &Target,
        context: &RunContext<'_>,
    ) -> (Self, Vec<Error>) {
        let cluster = exec.provide_cluster_info.then(|| cluster(target));
        let config = Config { exec, version, cluster };
        let mut faults = Vec::new();
        // Nothing runs without a terminal, whatever becomes of the program (IT-04).
        let prepared = config.prepare(context, true, None).map_err(|fault| faults.push(fault)).ok();
        let run = prepared.as_ref().map(|(run, _)| run);
        let (preview, fault) = Preview::new(config.spec(), context, run);
        let request = prepared.map(|(_, request)| request);
        let plugin = Self { config, preview, request };
        faults.extend(fault.map(|fault| plugin.hinted(fault)));
        (plugin, faults)
    }

    /// The version of the protocol. Fails for one that nobody speaks (EV-02).
    pub(crate) fn version_of(exec: &Exec) -> Result<Version, Error> {
        exec.api_version.known().ok_or_else(|| {
            let version = inline(exec.api_version.text());
            let what = format!("`{version}` is no version of the plugin protocol");
            Error::new(Kind::BadConfig, what)
                .note("known are", Version::ALL.map(Version::api_version).join(", "))
        })
    }

    /// The version of the protocol.
    pub fn version(&self) -> Version {
        self.config.version
    }

    /// The command, as the kubeconfig says it.
    pub fn command(&self) -> &str {
        &self.config.exec.command
    }

    /// The whole `exec` block. Arguments may be secret.
    pub fn exec(&self) -> &Exec {
        &self.config.exec
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.preview.warnings();
        if self.config.exec.provide_cluster_info && self.config.version == Version::V1Alpha1 {
            warnings.push("`provideClusterInfo` says nothing under v1alpha1".into());
        }
        warnings
    }

    /// Adds how to get a plugin that is not there: for every way of not being there (D5), and some
    /// general help where the kubeconfig says nothing (IH-04).
    pub(crate) fn hinted(&self, error: Error) -> Error {
        if error.kind() != Kind::NotFound {
            return error;
        }
        let hint = text::clean(self.config.exec.install_hint.trim());
        if hint.is_empty() {
            error.with_hint(
                "the kubeconfig needs this program to log in: install it, or put its directory on `PATH`",
            )
        } else {
            error.with_hint(format!("{hint}   (installHint of the kubeconfig)"))
        }
    }
}

impl Config {
    fn spec(&self) -> Spec<'_> {
        let Exec { command, args, env, .. } = &self.exec;
        Spec { role: Role::Exec, name: command, args, env }
    }

    /// Decides for one run. `waited_for` is false for a refresh ahead of time, which must disturb
    /// nobody; a plugin that always asks a person is not run for it at all.
    pub(super) fn prepare(
        &self,
        context: &RunContext<'_>,
        waited_for: bool,
        response: Option<&Response>,
    ) -> Result<(RunSettings<'_>, Request), Error> {
        let RunContext { surroundings, settings, .. } = context;
        let mode = &self.exec.interactive_mode;
        let alone = settings.alone(waited_for);
        let unavailable = settings.stdin_unavailable.as_deref().or(alone);
        let interactive = interactive(mode, surroundings.stdin_is_terminal(), unavailable)
            .map_err(|error| error.note("plugin", format!("`{}`", inline(&self.exec.command))))?;
        let attended = interactive
            || (alone.is_none() && *mode != InteractiveMode::Never && surroundings.has_terminal());
        let alpha = self.version == Version::V1Alpha1;
        let request = Request {
            version: self.version,
            interactive,
            cluster: self.cluster.clone().filter(|_| !alpha),
            response: response.filter(|_| alpha).cloned(),
            form: settings.form,
        };
        let asked = (REQUEST_VARIABLE, &*request.to_json());
        let mut run = self.spec().prepare(context, asked, attended, interactive, waited_for);
        if let Some(cluster) = &request.cluster {
            let addresses = [&cluster.server, &cluster.proxy_url].into_iter();
            run.secrets = addresses.flat_map(|address| url_passwords(address)).collect();
            run.secrets.extend(cluster.config.iter().flat_map(Node::secrets));
        }
        Ok((run, request))
    }
}

impl fmt::Debug for ExecPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecPlugin")
            .field("exec", &self.config.exec)
            .field("program", &self.preview.program)
            .finish_non_exhaustive()
    }
}

/// The cluster as a plugin sees it (IN-05): every field of the kubeconfig's, but for the path of the
/// authority, whose content it gets, and the extensions, of which it gets its own.
fn cluster(target: &Target) -> exec::Cluster {
    let kubeconfig::Cluster {
        server,
        tls_server_name,
        insecure_skip_tls_verify,
        certificate_authority: _,
        certificate_authority_data,
        proxy_url,
        disable_compression,
        extensions: _,
    } = &target.cluster.value;
    exec::Cluster {
        server: server.clone(),
        tls_server_name: tls_server_name.clone(),
        insecure_skip_tls_verify: *insecure_skip_tls_verify,
        certificate_authority_data: certificate_authority_data.clone(),
        proxy_url: proxy_url.clone(),
        disable_compression: *disable_compression,
        config: target.exec_config.clone(),
    }
}
