//! From how a node logs in today to the providers that do it.

use std::path::{Path, PathBuf};

use keyward_host::redact;
use keyward_image::{Config, Files, Pattern, Protocol, Provider, Reading, Severity};
use keyward_protocol::{Node, image::Version, node::Value};
use serde::Serialize;

use super::{
    entry::{ACR, ECR, Entry, GAR, replacement, secret_arguments, secret_variable},
    files,
    kubelet::{AZURE, BIN_DIR, CONFIG, Kubelet},
    root::Root,
};
use crate::{
    bridge::Bridge,
    failure::Failure,
    output::{self, inline},
};

/// The directory of the programs on nodes that have none yet.
const PROGRAMS: &str = "/etc/kubernetes/image-credential-provider";

/// The gate that switches the kubelet's own providers off.
const NO_IN_TREE: &str = "DisableKubeletCloudCredentialProviders";

/// What the kubelet's own provider for Azure matches.
const ACR_PATTERNS: [&str; 4] = ["*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"];

/// Something that the node logs in with today.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    pub(super) what: String,
    pub(super) file: PathBuf,
}

/// Something that the operator should know.
#[derive(Debug, Serialize)]
pub(super) struct Note {
    #[serde(serialize_with = "output::as_shown")]
    pub(super) severity: Severity,
    pub(super) message: String,
}

/// The new configuration, and how it comes about.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) found: Vec<Found>,
    pub(super) entries: Vec<Entry>,
    pub(super) notes: Vec<Note>,
    /// The version of the configuration file.
    pub(super) form: Version,
    /// The directory of the providers' programs.
    pub(super) bin_dir: PathBuf,
}

impl Plan {
    /// Plans for this node; `minor` is the kubelet's version (1.x), if it is known.
    pub(super) fn new(root: &Root, kubelet: &Kubelet, minor: Option<u32>) -> Result<Self, Failure> {
        let form = match minor {
            Some(..24) => Version::V1Alpha1,
            Some(24..26) => Version::V1Beta1,
            Some(_) | None => Version::V1,
        };
        let bin_dir = kubelet.path(BIN_DIR).unwrap_or_else(|| PROGRAMS.into());
        if bin_dir.as_os_str().as_encoded_bytes().iter().any(u8::is_ascii_control) {
            let shown = output::path(&bin_dir);
            let what = format!("the kubelet's `--{BIN_DIR}` is no path: `{shown}`");
            return Err(Failure::failed(what));
        }
        let mut plan =
            Self { found: Vec::new(), entries: Vec::new(), notes: Vec::new(), form, bin_dir };
        plan.providers(root, kubelet)?;
        plan.in_tree(root, kubelet, minor)?;
        files::add(&mut plan, root, kubelet)?;
        plan.entries.iter_mut().for_each(Entry::complete);
        plan.identities(root)?;
        Ok(plan)
    }

    pub(super) fn note(&mut self, severity: Severity, message: impl Into<String>) {
        self.notes.push(Note { severity, message: message.into() });
    }

    pub(super) fn found(&mut self, what: impl Into<String>, file: &Path) {
        self.found.push(Found { what: what.into(), file: file.to_owned() });
    }

    /// The entry with this name, which is added if there is none. A configuration may name a provider only once.
    pub(super) fn entry(&mut self, name: &str, replaces: &str, cache: &str) -> &mut Entry {
        let at = self.entries.iter().position(|entry| entry.name == name).unwrap_or_else(|| {
            self.entries.push(Entry::new(name, replaces, self.form, cache));
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    /// Takes over the providers of today's configuration.
    fn providers(&mut self, root: &Root, kubelet: &Kubelet) -> Result<(), Failure> {
        let Some(path) = kubelet.path(CONFIG) else { return Ok(()) };
        let shown = output::path(&path);
        if !root.exists(&path) {
            let message = format!("`--{CONFIG}` names `{shown}`, which does not exist");
            self.note(Severity::Warning, message);
            return Ok(());
        }
        let faults = |problems: &[keyward_image::Problem]| {
            let failure =
                Failure::failed(format!("the kubelet's configuration `{shown}` is not valid"));
            problems.iter().fold(failure, |failure, problem| {
                failure.note(
                    format!("line {}", problem.place.line),
                    format!("`{}` {}", problem.field, problem.message),
                )
            })
        };
        let files = Files::read_at(&path, |path| root.locate(path));
        let files = files.map_err(|error| faults(&error.problems))?;
        let (config, problems) = Config::review(&files, Reading::Kubelet);
        if !problems.is_empty() {
            return Err(faults(&problems));
        }
        let names = output::list(config.providers.iter().map(|provider| &provider.name));
        self.found(format!("image credential providers: {names}"), &path);
        if config.providers.iter().any(|provider| provider.protocol == Protocol::Proposal) {
            self.behind_node(&config, &path);
            return Ok(());
        }
        // The kubelet that reads it today understands this version.
        self.form =
            config.providers.iter().filter_map(|provider| provider.form).max().unwrap_or(self.form);
        for provider in &config.providers {
            self.take(provider);
        }
        Ok(())
    }

    fn take(&mut self, provider: &Provider) {
        let (name, place) = (inline(&provider.name), &provider.place);
        for (variable, value) in &provider.env {
            if secret_variable(variable, value.expose()) {
                redact::remember_value(value);
                let message = format!(
                    "`{name}` gets a secret in its variable `{}` ({place}), which this command does not copy: put the \
                     secret into a file that the provider reads, or copy the entry yourself",
                    inline(variable)
                );
                self.note(Severity::Error, message);
                return;
            }
        }
        if secret_arguments(&provider.args) {
            let message = format!(
                "an argument of `{name}` may be a secret ({place}), which this command does not copy: put it into a \
                 file that the provider reads, or copy the entry yourself"
            );
            self.note(Severity::Error, message);
            return;
        }
        let ours = replacement(&provider.name, &provider.args);
        if ours.is_none() && provider.args.iter().any(|arg| arg.starts_with("--ib-")) {
            let message = format!(
                "`{name}` stays: it uses identity bindings of AKS, which `{ACR}` does not have"
            );
            self.note(Severity::Note, message);
        }
        if ours == Some(GAR) {
            let message = format!(
                "`{GAR}` uses application default credentials: the machine's service account, unless \
                 `GOOGLE_APPLICATION_CREDENTIALS` is set for the kubelet"
            );
            self.note(Severity::Note, message);
        }
        let new = ours.unwrap_or(&provider.name);
        let version = match provider.protocol {
            Protocol::Kubelet(version) => version,
            Protocol::Proposal => self.form,
        };
        let env = provider.env.iter();
        let env = env.map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
        let entry = self.entry(new, &provider.name, "0");
        entry.match_also(provider.patterns.iter().map(Pattern::text));
        entry.version = version;
        entry.cache = provider.default_duration;
        entry.args.clone_from(&provider.args);
        entry.env = env;
        entry.tokens.clone_from(&provider.tokens);
    }

    /// Puts a configuration in the original proposal's form behind `keyward-provider-node`, which reads it.
    fn behind_node(&mut self, config: &Config, path: &Path) {
        let args = vec![
            format!("--config={}", path.display()),
            format!("--bin-dir={}", self.bin_dir.display()),
        ];
        let replaces = "the configuration in the original proposal's form";
        let entry = self.entry(Bridge::Node.name(), replaces, "0s");
        for provider in &config.providers {
            entry.match_also(provider.patterns.iter().map(Pattern::text));
        }
        entry.args = args;
        let message = "in the original proposal's form, a pattern without a port matches every port; for the kubelet, \
                       it matches images without a port: add patterns for registries with one";
        self.note(Severity::Note, message);
    }

    /// Replaces the kubelet's own providers.
    fn in_tree(
        &mut self,
        root: &Root,
        kubelet: &Kubelet,
        minor: Option<u32>,
    ) -> Result<(), Failure> {
        if kubelet.gate(NO_IN_TREE) == Some(true) {
            return Ok(());
        }
        let cloud = kubelet.flag("cloud-provider");
        if let Some(flag) = kubelet.flag(AZURE) {
            let file = Path::new("/").join(&flag.value);
            self.found("the kubelet's own provider for Azure Container Registry", &flag.file);
            let entry = self.entry(ACR, "the kubelet's own provider for Azure", "10m");
            entry.match_also(ACR_PATTERNS);
            if entry.args.is_empty() {
                entry.args = vec![file.display().to_string()];
            }
        }
        for machine in MACHINES {
            let flag = cloud.filter(|flag| flag.value == machine.cloud);
            let here = root.text(Path::new(machine.file))?;
            let here = here.is_some_and(|text| machine.names.contains(&text.trim()));
            let is_on = kubelet.gate(NO_IN_TREE) == Some(false);
            let old = minor
                .is_some_and(|minor| minor < machine.until || (is_on && minor < machine.removed));
            if flag.is_some() || (here && old) {
                let file = flag.map_or(Path::new(machine.file), |flag| &flag.file);
                let own = format!("the kubelet's own provider for {}", machine.registry);
                self.found(own.as_str(), file);
                let entry = self.entry(machine.provider, &own, machine.cache);
                entry.match_also(machine.patterns.iter().copied());
            } else if here
                && minor.is_none()
                && !self.entries.iter().any(|e| e.name == machine.provider)
            {
                let message = format!(
                    "kubelets before 1.{} log in to {} by themselves on this machine; if yours is older, add \
                     `--kubelet 1.N`",
                    machine.until, machine.registry
                );
                self.note(Severity::Note, message);
            }
        }
        Ok(())
    }

    /// Says whose login `keyward-acr` gives.
    fn identities(&mut self, root: &Root) -> Result<(), Failure> {
        for entry in self.entries.iter_mut().filter(|entry| entry.name == ACR) {
            let Some(path) = entry.args.iter().find(|arg| arg.starts_with('/')) else { continue };
            let shown = inline(path);
            let Some(node) = root.node(Path::new(path))? else {
                let message = format!("`{ACR}` reads `{shown}`, which does not exist");
                self.notes.push(Note { severity: Severity::Warning, message });
                continue;
            };
            self.found
                .push(Found { what: "Azure's settings of the node".into(), file: path.into() });
            let managed = node.get("useManagedIdentityExtension").map(|node| &node.value);
            let field = |name: &str| node.get(name).and_then(Node::as_text);
            let named = field("userAssignedIdentityID").filter(|id| !id.is_empty());
            entry.identity = Some(match (managed, named) {
                (Some(Value::Bool(true)), Some(id)) => {
                    format!("the managed identity `{}`", inline(id))
                }
                (Some(Value::Bool(true)), None) => "the machine's managed identity".to_owned(),
                _ => {
                    let client = field("aadClientId").unwrap_or_default();
                    format!("the application `{}`, whose secret stays in `{shown}`", inline(client))
                }
            });
        }
        Ok(())
    }
}

/// A cloud that kubelets had a provider for, and used on its machines.
struct Machine {
    /// The value of `--cloud-provider`.
    cloud: &'static str,
    registry: &'static str,
    /// The file that tells its machines, and what it contains there.
    file: &'static str,
    names: &'static [&'static str],
    /// The first minor version whose kubelet does not do it, unless told to.
    until: u32,
    /// The first minor version whose kubelet cannot do it.
    removed: u32,
    provider: &'static str,
    /// What the kubelet's own provider matches.
    patterns: &'static [&'static str],
    cache: &'static str,
}

const MACHINES: [Machine; 2] = [
    Machine {
        cloud: "aws",
        registry: "Amazon ECR",
        file: "/sys/devices/virtual/dmi/id/chassis_vendor",
        names: &["Amazon EC2"],
        until: 27,
        removed: 27,
        provider: ECR,
        patterns: &["*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn"],
        cache: "12h",
    },
    Machine {
        cloud: "gce",
        registry: "Google's registries",
        file: "/sys/class/dmi/id/product_name",
        names: &["Google", "Google Compute Engine"],
        until: 29,
        removed: 31,
        provider: GAR,
        patterns: &["container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"],
        cache: "1m",
    },
];
