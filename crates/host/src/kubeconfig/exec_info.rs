//! The cluster in a plugin's request, as a [`Target`]: for plugins that call their cluster.

use keyward_process::surroundings::Surroundings;
use keyward_protocol::exec::{self, REQUEST_VARIABLE, Request, Version};

use super::{
    Class, Cluster, EXEC_EXTENSION, Named, Target,
    problem::report,
    server::{Transport, normalise, transport},
    validate::Judge,
};
use crate::{Error, Kind};

impl Target {
    /// The cluster in `KUBERNETES_EXEC_INFO`, with which a client has started this process as its
    /// plugin. The user has no credential; the namespace is `default`.
    ///
    /// Fails if the variable is not set or cannot be read, if the request names no cluster, and as
    /// [`Target::for_exec_cluster`] does.
    pub fn from_exec_info(surroundings: &Surroundings) -> Result<Self, Error> {
        let text = surroundings.var(REQUEST_VARIABLE).filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| {
            wrong(format!("`{REQUEST_VARIABLE}` is not set")).with_hint(
                "this program is a credential plugin: kubectl and other clients set the variable when they run it",
            )
        })?;
        let request = Request::read(text.as_encoded_bytes())
            .map_err(|error| {
                wrong(format!("the request in `{REQUEST_VARIABLE}` cannot be read")).because(error)
            })?
            .request;
        match &request.cluster {
            Some(cluster) => Self::for_exec_cluster(cluster),
            None => Err(wrong(format!("the request in `{REQUEST_VARIABLE}` names no cluster"))
                .with_hint(match request.version {
                    Version::V1Alpha1 => {
                        "v1alpha1 has no cluster: set `apiVersion: client.authentication.k8s.io/v1` and \
                         `provideClusterInfo: true` for this user in the kubeconfig"
                    }
                    _ => "set `provideClusterInfo: true` for this user in the kubeconfig",
                })),
        }
    }

    /// The cluster of a request that was read before, with a user that has no credential. The
    /// namespace is `default`.
    ///
    /// Fails if the cluster has no server, or its proxy or certificate authority cannot be used. A
    /// server without HTTPS is an error too: no client runs a plugin for one, and the plugin would
    /// send its credential in the clear.
    pub fn for_exec_cluster(cluster: &exec::Cluster) -> Result<Self, Error> {
        let cluster = Named::new(REQUEST_VARIABLE, kubeconfig_cluster(cluster));
        let mut problems = Vec::new();
        // The request names no file, so nothing is read.
        Judge::of(&cluster, &Surroundings::process(), &mut problems).cluster(&cluster.value);
        let server = &cluster.value.server;
        if !server.is_empty() && transport(&normalise(server)) != Transport::Https {
            let what = "is not an `https://` address: a credential would be sent in the clear";
            problems.push(cluster.problem(Class::NotHttps, "server", what));
        }
        if !problems.is_empty() {
            return Err(report(problems));
        }
        let mut target = Self { cluster, namespace: "default".to_owned(), ..Self::default() };
        target.address(&mut problems);
        target.check_authority()?;
        Ok(target)
    }
}

/// The kubeconfig's form of a request's cluster. Only the name of the authority's file is lost on the
/// way to a plugin, and the extensions of others.
fn kubeconfig_cluster(cluster: &exec::Cluster) -> Cluster {
    let exec::Cluster {
        server,
        tls_server_name,
        insecure_skip_tls_verify,
        certificate_authority_data,
        proxy_url,
        disable_compression,
        config,
    } = cluster;
    Cluster {
        server: server.clone(),
        tls_server_name: tls_server_name.clone(),
        insecure_skip_tls_verify: *insecure_skip_tls_verify,
        certificate_authority: String::new(),
        certificate_authority_data: certificate_authority_data.clone(),
        proxy_url: proxy_url.clone(),
        disable_compression: *disable_compression,
        extensions: config.iter().map(|it| Named::new(EXEC_EXTENSION, it.clone())).collect(),
    }
}

fn wrong(message: String) -> Error {
    Error::new(Kind::BadConfig, message)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use keyward_process::surroundings::Fixed;

    use super::*;
    use crate::{Kubeconfig, Overrides, Plan, PlanSettings, rules::Rules};

    fn target(request: &str) -> Result<Target, Error> {
        let vars = vec![(REQUEST_VARIABLE.into(), request.into())];
        Target::from_exec_info(&Surroundings::fixed(Fixed { vars, ..Fixed::default() }))
    }

    fn with_cluster(version: &str, cluster: &str) -> Result<Target, Error> {
        target(&format!(
            r#"{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/{version}",
                "spec":{{"interactive":false,"cluster":{cluster}}}}}"#
        ))
    }

    fn refused(cluster: &str) -> String {
        format!("{:#}", with_cluster("v1", cluster).unwrap_err())
    }

    #[test]
    fn a_plugin_gets_the_cluster_that_its_client_has() {
        let kubeconfig = br"
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters:
- name: c
  cluster:
    server: https://h:6443/base?x=1
    tls-server-name: api.test
    insecure-skip-tls-verify: true
    proxy-url: SOCKS5://p:1080
    disable-compression: true
    extensions:
    - {name: client.authentication.k8s.io/exec, extension: {account: dev}}
    - {name: other, extension: {}}
users:
- name: u
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never, provideClusterInfo: true}
";
        let here = Surroundings::process();
        let theirs = Kubeconfig::from_bytes(kubeconfig).unwrap();
        let theirs = theirs.resolve(&Overrides::default(), &here).unwrap();
        let settings = PlanSettings::default();
        let plan = Plan::new(theirs.clone(), &Rules::default(), &here, settings).unwrap();
        let request = plan.plugin().unwrap().request.clone().unwrap();

        let mut ours = target(&request.to_json()).unwrap();
        assert_eq!(ours.exec_config.as_ref().unwrap().to_json(), r#"{"account":"dev"}"#);
        assert_eq!(ours.namespace, "default");
        ours.cluster.value.extensions = theirs.cluster.value.extensions.clone();
        assert_eq!(ours.cluster.value, theirs.cluster.value);
    }

    #[test]
    fn without_a_request_or_a_cluster_it_says_what_to_set() {
        let unset = Target::from_exec_info(&Surroundings::fixed(Fixed::default())).unwrap_err();
        assert_eq!(unset.to_string(), "`KUBERNETES_EXEC_INFO` is not set");
        assert!(unset.hint().unwrap().contains("kubectl"), "{unset:#}");
        assert_eq!(target("").unwrap_err().to_string(), unset.to_string());

        for version in ["v1", "v1beta1", "v1alpha1"] {
            let error = with_cluster(version, "null").unwrap_err();
            let shown = format!("{error:#}");
            assert!(shown.starts_with("the request in `KUBERNETES_EXEC_INFO` names no cluster\n"));
            assert!(shown.contains("`provideClusterInfo: true`"), "{shown}");
            assert_eq!(shown.contains("v1alpha1 has no cluster"), version == "v1alpha1");
        }
    }

    #[test]
    fn a_request_that_cannot_be_read_is_not_repeated() {
        let shown = format!("{:#}", target(r#"{"hush":"#).unwrap_err());
        assert!(shown.contains("in `KUBERNETES_EXEC_INFO` cannot be read\n  cause: "), "{shown}");
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn a_cluster_that_cannot_be_used_is_refused_by_field() {
        for (cluster, what) in [
            ("{}", "`server` is missing"),
            (r#"{"server":"http://h"}"#, "`server` is not an `https://` address"),
            (r#"{"server":"h:6443"}"#, "`server` is not an `https://` address"),
            (r#"{"server":"https://h","proxy-url":"p:3128"}"#, "`proxy-url` has"),
            (
                r#"{"server":"https://h","certificate-authority-data":"eA=="}"#,
                "`certificate-authority-data` holds no certificate in PEM",
            ),
        ] {
            let shown = refused(cluster);
            let expected = format!("cluster `KUBERNETES_EXEC_INFO`: {what}");
            assert!(shown.starts_with(&expected), "{shown}");
        }
        let shown = refused(r#"{"server":"http://me:hush@h","proxy-url":"ftp://me:hush@p"}"#);
        assert!(shown.contains("2 problems") && !shown.contains("hush"), "{shown}");
    }
}
