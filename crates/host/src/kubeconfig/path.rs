//! Paths in a kubeconfig are relative to the file they stand in (KC-17, KC-18).

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{Class, Cluster, Kubeconfig, Place, Problem, User};
use keyward_process::surroundings::Surroundings;

use crate::rules::clean;

impl Kubeconfig {
    /// The absolute paths of the files that clusters name as their certificate authorities, each once:
    /// of the clusters of these contexts, or of all.
    pub fn authority_files(
        &self,
        contexts: Option<&[String]>,
        surroundings: &Surroundings,
    ) -> Vec<PathBuf> {
        let is_chosen = |cluster: &str| match contexts {
            None => true,
            Some(names) => self
                .contexts
                .iter()
                .any(|context| context.value.cluster == cluster && names.contains(&context.name)),
        };
        let named = self.clusters.iter().filter(|cluster| is_chosen(&cluster.name));
        let files = named.filter_map(|cluster| {
            let path =
                Some(&cluster.value.certificate_authority).filter(|path| !path.is_empty())?;
            Some(join(path, &base(&cluster.place, surroundings)?))
        });
        files.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Makes the paths of a cluster absolute; those from memory (KC-22) stay as they are.
pub(super) fn settle_cluster(
    cluster: &mut Cluster,
    place: &Place,
    surroundings: &Surroundings,
) -> Result<(), Problem> {
    let Some(base) = base(place, surroundings) else {
        return Ok(());
    };
    settle(&mut cluster.certificate_authority, &base, place)
}

/// Makes the paths of a user absolute; a command without separator is left to `PATH` (KC-19), and
/// nothing is expanded (KC-20).
pub(super) fn settle_user(
    user: &mut User,
    place: &Place,
    surroundings: &Surroundings,
) -> Result<(), Problem> {
    let Some(base) = base(place, surroundings) else {
        return Ok(());
    };
    settle(&mut user.client_certificate, &base, place)?;
    settle(&mut user.client_key, &base, place)?;
    settle(&mut user.token_file, &base, place)?;
    if let Some(exec) = &mut user.exec
        && exec.command.contains(std::path::is_separator)
    {
        settle(&mut exec.command, &base, place)?;
    }
    if let Some(provider) = &mut user.auth_provider
        && provider.name == crate::signer::SignerPlugin::PROVIDER
    {
        // A command too, and found as one.
        for (name, value) in &mut provider.config {
            if name == crate::signer::PATH && value.expose().contains(std::path::is_separator) {
                let mut path = value.expose().to_owned();
                settle(&mut path, &base, place)?;
                *value = keyward_protocol::Secret::new(path);
            }
        }
    }
    Ok(())
}

/// The directory of the file itself: of a symbolic link, not of what it leads to.
pub(super) fn base(place: &Place, surroundings: &Surroundings) -> Option<PathBuf> {
    let file = place.file.as_deref()?;
    let folder = file.parent().unwrap_or(Path::new(""));
    Some(clean(&surroundings.absolute(folder)))
}

/// `path` against `base`, as the reference joins them: `.` and `..` are cleaned away without a
/// look at the disk. An absolute path stays exactly as it is.
pub(super) fn join(path: &str, base: &Path) -> PathBuf {
    if Path::new(path).is_absolute() { PathBuf::from(path) } else { clean(&base.join(path)) }
}

fn settle(path: &mut String, base: &Path, place: &Place) -> Result<(), Problem> {
    if path.is_empty() || Path::new(path.as_str()).is_absolute() {
        return Ok(());
    }
    match join(path, base).into_os_string().into_string() {
        Ok(absolute) => {
            *path = absolute;
            Ok(())
        }
        Err(_) => Err(Problem::new(
            Class::Load,
            place.clone(),
            "has a relative path, and the folder of the kubeconfig is not UTF-8",
        )),
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use keyward_process::surroundings::Fixed;

    use super::*;

    #[test]
    fn authority_files_are_relative_to_their_kubeconfig_and_named_once() {
        let here = Surroundings::fixed(Fixed { cwd: "/elsewhere".into(), ..Fixed::default() });
        let text = "clusters:
- {name: a, cluster: {certificate-authority: ca.crt}}
- {name: b, cluster: {certificate-authority: ./ca.crt}}
- {name: c, cluster: {certificate-authority: /abs.crt}}
- {name: d, cluster: {certificate-authority-data: eA==}}
contexts:
- {name: one, context: {cluster: c}}
- {name: two, context: {cluster: d}}
";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, text).unwrap();
        let config = Kubeconfig::load(&here, Some(&path)).unwrap();
        let own = folder.path().join("ca.crt");
        let mut all = vec![PathBuf::from("/abs.crt"), own];
        all.sort();
        assert_eq!(config.authority_files(None, &here), all);
        let of = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            config.authority_files(Some(&names), &here)
        };
        assert_eq!(of(&["one", "two"]), [PathBuf::from("/abs.crt")]);
        assert!(of(&["two"]).is_empty());
    }

    #[test]
    fn dots_are_cleaned_away_without_a_look_at_the_disk() {
        for (path, expected) in [
            ("./plugin", "/k/sub/plugin"),
            ("../plugin", "/k/plugin"),
            ("../../../plugin", "/plugin"),
            ("./bin/../plugin", "/k/sub/plugin"),
            ("~/plugin", "/k/sub/~/plugin"),
            ("a//b/", "/k/sub/a/b"),
            ("/abs/../x", "/abs/../x"),
        ] {
            assert_eq!(join(path, Path::new("/k/sub")), Path::new(expected));
        }
    }
}
