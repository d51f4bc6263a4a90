//! The service account of the pod we run in: the last resort, when no kubeconfig says anything.

use std::{
    fs,
    path::{Path, PathBuf},
};

use keyward_protocol::Secret;

use super::{
    Class, Cluster, Named, Overrides, Place, Problem, Target, User,
    load::{read, reason},
};
use keyward_process::surroundings::Surroundings;

/// Where Kubernetes puts a pod's credentials.
const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The pod we may run in.
pub(super) struct Pod<'a> {
    surroundings: &'a Surroundings,
    folder: PathBuf,
}

impl<'a> Pod<'a> {
    pub(super) fn new(surroundings: &'a Surroundings) -> Self {
        Self::at(surroundings, Path::new(FOLDER))
    }

    fn at(surroundings: &'a Surroundings, folder: &Path) -> Self {
        Self { surroundings, folder: folder.to_owned() }
    }

    /// The pod's own API server and service account; `None` when we do not run in a pod.
    ///
    /// The token is given as a file, because it is replaced while we run.
    pub(super) fn target(&self, overrides: &Overrides) -> Option<Result<Target, Vec<Problem>>> {
        let (host, port) = self.service()?;
        Some(self.build(&host, &port, overrides).map_err(|p| vec![p]))
    }

    /// The pod's namespace; `None` when we do not run in a pod.
    pub(super) fn namespace(&self) -> Option<String> {
        self.service()?;
        let name = self.var("POD_NAMESPACE").or_else(|| {
            let name = read(&self.folder.join("namespace")).ok()?;
            Some(String::from_utf8_lossy(&name).trim().to_owned()).filter(|name| !name.is_empty())
        });
        Some(name.unwrap_or_else(|| "default".to_owned()))
    }

    /// A variable that says something.
    fn var(&self, name: &str) -> Option<String> {
        self.surroundings.var(name)?.into_string().ok().filter(|value| !value.is_empty())
    }

    /// Host and port of the API server, if this is a pod with a service account.
    fn service(&self) -> Option<(String, String)> {
        let host = self.var("KUBERNETES_SERVICE_HOST")?;
        let port = self.var("KUBERNETES_SERVICE_PORT")?;
        let token = fs::metadata(self.folder.join("token")).ok()?;
        (!token.is_dir()).then_some((host, port))
    }

    fn build(&self, host: &str, port: &str, overrides: &Overrides) -> Result<Target, Problem> {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let mut user = User { token_file: self.path("token"), ..User::default() };
        overrides.apply_user(&mut user);
        if !user.token.is_empty()
            || !user.username.is_empty()
            || !user.client_certificate.is_empty()
        {
            // Flags that bring a credential are meant instead of the pod's.
            user.token_file.clear();
        } else {
            let mut token = read(&self.folder.join("token")).map_err(|kind| {
                let message = format!(
                    "the token of the pod's service account cannot be read: {}",
                    reason(kind)
                );
                Problem::new(Class::TokenUnreadable, Place::default(), message)
            })?;
            user.token = Secret::from_bytes(std::mem::take(&mut *token));
        }
        let mut cluster =
            Cluster { server: format!("https://{host}:{port}"), ..Cluster::default() };
        let mut warnings = Vec::new();
        match read(&self.folder.join("ca.crt")) {
            Ok(bytes) => {
                cluster.certificate_authority = self.path("ca.crt");
                cluster.certificate_authority_data = bytes.to_vec();
            }
            Err(kind) => warnings.push(format!(
                "the certificate authority of the pod cannot be read: {}",
                reason(kind)
            )),
        }
        let over = overrides.namespace.clone().filter(|name| !name.is_empty());
        Ok(Target {
            namespace_overridden: over.is_some(),
            namespace: over.or_else(|| self.namespace()).unwrap_or_else(|| "default".to_owned()),
            cluster: Named { value: cluster, ..Named::default() },
            user: Named { value: user, ..Named::default() },
            in_cluster: true,
            warnings,
            ..Target::default()
        })
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use keyward_protocol::Secret;

    use super::*;
    use keyward_process::surroundings::Fixed;

    fn pod(host: &str) -> (tempfile::TempDir, Surroundings) {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [("token", "t1"), ("ca.crt", "CA"), ("namespace", "team\n")] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let vars = vec![
            ("KUBERNETES_SERVICE_HOST".into(), host.into()),
            ("KUBERNETES_SERVICE_PORT".into(), "443".into()),
        ];
        (folder, Surroundings::fixed(Fixed { vars, ..Fixed::default() }))
    }

    #[test]
    fn a_pod_uses_its_service_account_and_names_the_token_by_its_file() {
        let (folder, surroundings) = pod("10.0.0.1");
        let pod = Pod::at(&surroundings, folder.path());
        let target = pod.target(&Overrides::default()).unwrap().unwrap();
        assert_eq!(target.cluster.value.server, "https://10.0.0.1:443");
        assert_eq!(target.cluster.value.certificate_authority_data, b"CA");
        assert_eq!(Path::new(&target.user.value.token_file), folder.path().join("token"));
        assert_eq!(target.user.value.token, Secret::new("t1"));
        assert_eq!((target.namespace.as_str(), target.in_cluster), ("team", true));
    }

    #[test]
    fn an_address_of_version_six_stands_in_brackets() {
        let (folder, surroundings) = pod("fd00::1");
        let pod = Pod::at(&surroundings, folder.path());
        let target = pod.target(&Overrides::default()).unwrap().unwrap();
        assert_eq!(target.cluster.value.server, "https://[fd00::1]:443");
    }

    #[test]
    fn a_token_of_a_flag_is_used_instead_of_the_pods() {
        let (folder, surroundings) = pod("h");
        let pod = Pod::at(&surroundings, folder.path());
        let token = Some(Secret::new("mine"));
        let overrides = Overrides { token, ..Overrides::default() };
        let target = pod.target(&overrides).unwrap().unwrap();
        assert_eq!(target.user.value.token, Secret::new("mine"));
        assert_eq!(target.user.value.token_file, "");
    }

    #[test]
    fn without_token_file_or_variables_this_is_no_pod() {
        let (folder, surroundings) = pod("h");
        fs::remove_file(folder.path().join("token")).unwrap();
        assert!(Pod::at(&surroundings, folder.path()).target(&Overrides::default()).is_none());
        let (folder, _) = pod("h");
        let nowhere = Surroundings::fixed(Fixed::default());
        assert!(Pod::at(&nowhere, folder.path()).target(&Overrides::default()).is_none());
    }
}
