//! How the kubelet is started, and what its configuration says that concerns logins.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use keyward_protocol::{Node, node::Value};

use super::{
    root::Root,
    unit::{Unit, split, variables},
};
use crate::{bridge::texts, failure::Failure};

/// The flag that names the configuration of the providers.
pub(super) const CONFIG: &str = "image-credential-provider-config";
/// The flag that names the directory of their programs.
pub(super) const BIN_DIR: &str = "image-credential-provider-bin-dir";
/// The flag of the provider for Azure that kubelets had before 1.30.
pub(super) const AZURE: &str = "azure-container-registry-config";

/// Where k3s and RKE2 look for providers if no flag says otherwise.
const RANCHER: &str = "/var/lib/rancher/credentialprovider";

/// Files with a kubelet's flags on nodes whose unit does not name them.
const LOOSE: [&str; 4] = [
    "/etc/default/kubelet",
    "/etc/sysconfig/kubelet",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/var/snap/microk8s/current/args/kubelet",
];

/// The services that run a kubelet, with the distribution's directory below `/etc/rancher`.
const SERVICES: [(&str, Option<&str>); 5] = [
    ("kubelet.service", None),
    ("k3s.service", Some("k3s")),
    ("k3s-agent.service", Some("k3s")),
    ("rke2-server.service", Some("rke2")),
    ("rke2-agent.service", Some("rke2")),
];

/// A flag's value and the file that sets it.
#[derive(Debug, Clone)]
pub(super) struct Flag {
    pub(super) value: String,
    pub(super) file: PathBuf,
}

/// The kubelet of a node.
#[derive(Debug, Default)]
pub(super) struct Kubelet {
    /// The service to restart, such as `kubelet`.
    pub(super) service: Option<&'static str>,
    /// The files that its flags and its configuration were read from.
    pub(super) files: Vec<PathBuf>,
    /// The file of k3s or RKE2 that the flags belong in, as settings.
    pub(super) settings: Option<PathBuf>,
    /// The home directory that its service sets.
    pub(super) home: Option<String>,
    flags: BTreeMap<String, Flag>,
    gates: BTreeMap<String, bool>,
}

impl Kubelet {
    /// Reads what the node says about its kubelet.
    pub(super) fn read(root: &Root) -> Result<Self, Failure> {
        let mut kubelet = Self::default();
        for (name, rancher) in SERVICES {
            let Some(unit) = Unit::read(root, name)? else { continue };
            kubelet.service = name.strip_suffix(".service");
            kubelet.home = unit.variables.get("HOME").cloned();
            let file = unit.files.first().cloned().unwrap_or_default();
            kubelet.take(&unit.words, &file);
            kubelet.files.extend(unit.files);
            if let Some(name) = rancher {
                kubelet.rancher(root, name)?;
            }
            break;
        }
        if kubelet.service.is_none() {
            kubelet.loose(root)?;
        }
        kubelet.configuration(root)?;
        Ok(kubelet)
    }

    /// A flag that is set and not empty.
    pub(super) fn flag(&self, name: &str) -> Option<&Flag> {
        self.flags.get(name).filter(|flag| !flag.value.is_empty())
    }

    /// The path that a flag names.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.flag(name).map(|flag| Path::new("/").join(&flag.value))
    }

    /// Whether a feature gate is switched on or off; `None` if nothing says so.
    pub(super) fn gate(&self, name: &str) -> Option<bool> {
        self.gates.get(name).copied()
    }

    /// Reads flags: `--name=value` or `--name value`.
    fn take(&mut self, words: &[String], file: &Path) {
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let Some(word) = word.strip_prefix("--") else { continue };
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => (
                    word,
                    words.next_if(|next| !next.starts_with('-')).cloned().unwrap_or_default(),
                ),
            };
            if name == "kubelet-arg" {
                self.set_argument(&value, file);
            } else {
                self.set(name, value, file);
            }
        }
    }

    fn set(&mut self, name: &str, value: String, file: &Path) {
        if name == "feature-gates" {
            let pairs = value.split(',').filter_map(|pair| pair.split_once('='));
            self.gates.extend(pairs.map(|(gate, on)| (gate.trim().to_owned(), on == "true")));
        }
        self.flags.insert(name.to_owned(), Flag { value, file: file.to_owned() });
    }

    /// Sets a flag that k3s passes on to the kubelet: `name=value`.
    fn set_argument(&mut self, argument: &str, file: &Path) {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        self.set(name.trim_start_matches('-'), value.to_owned(), file);
    }

    /// Reads the settings of k3s and RKE2, and adds their defaults.
    fn rancher(&mut self, root: &Root, name: &str) -> Result<(), Failure> {
        let directory = Path::new("/etc/rancher").join(name);
        let main = directory.join("config.yaml");
        let drop_ins = root.files(&directory.join("config.yaml.d"), ".yaml");
        for file in std::iter::once(main.clone()).chain(drop_ins) {
            let Some(node) = root.node(&file)? else { continue };
            for flag in [CONFIG, BIN_DIR] {
                if let Some(value) = node.get(flag).and_then(Node::as_text) {
                    self.set(flag, value.to_owned(), &file);
                }
            }
            for key in ["kubelet-arg", "kubelet-arg+"] {
                for argument in texts(node.get(key)) {
                    self.set_argument(argument, &file);
                }
            }
            self.files.push(file);
        }
        let (config, programs) = (format!("{RANCHER}/config.yaml"), format!("{RANCHER}/bin"));
        if self.flag(CONFIG).is_none()
            && root.exists(Path::new(&config))
            && root.is_dir(Path::new(&programs))
        {
            self.set(CONFIG, config, &main);
            self.set(BIN_DIR, programs, &main);
        }
        self.settings = Some(main);
        Ok(())
    }

    /// Reads flags where no unit says how the kubelet is started.
    fn loose(&mut self, root: &Root) -> Result<(), Failure> {
        for file in LOOSE.map(Path::new) {
            let Some(text) = root.text(file)? else { continue };
            // Each line is a variable with flags, or a flag.
            let mut words: Vec<String> = Vec::new();
            for line in text.lines().filter(|line| line.trim_start().starts_with("--")) {
                words.extend(split(line));
            }
            for (_, value) in variables(&text).iter().filter(|(name, _)| !name.starts_with('-')) {
                words.extend(split(value));
            }
            self.take(&words, file);
            self.files.push(file.to_owned());
        }
        Ok(())
    }

    /// Reads the feature gates of the `KubeletConfiguration`.
    fn configuration(&mut self, root: &Root) -> Result<(), Failure> {
        let mut files: Vec<PathBuf> = self.path("config").into_iter().collect();
        if let Some(directory) = self.path("config-dir") {
            files.extend(root.files(&directory, ".conf"));
        }
        for file in files {
            let Some(node) = root.node(&file)? else { continue };
            for gate in node.get("featureGates").into_iter().flat_map(Node::entries) {
                if let Value::Bool(on) = gate.value.value {
                    // Flags count more than files.
                    self.gates.entry(gate.key.clone()).or_insert(on);
                }
            }
            self.files.push(file);
        }
        Ok(())
    }
}
