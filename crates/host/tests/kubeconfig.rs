//! Kubeconfig files as people write them, read from a real directory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use keyward_host::{
    Draft, Error, Kind, Kubeconfig, Overrides, PlanSettings, Target,
    kubeconfig::{Class, Cluster, Named},
    rules::Rules,
};
use keyward_process::surroundings::{Fixed, Surroundings};
use keyward_protocol::{Node, Secret};
use tempfile::TempDir;

const EXEC: &str = "\
apiVersion: v1
kind: Config
current-context: x
clusters:
- name: c
  cluster: {server: 'https://h:1'}
contexts:
- name: x
  context: {cluster: c, user: u}
users:
- name: u
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never}
";

/// A home with files in it.
struct Home(TempDir);

impl Home {
    fn with(files: &[(&str, &str)]) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for (name, content) in files {
            let path = home.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        home
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn surroundings(&self, vars: &[(&str, &str)]) -> Surroundings {
        let mut all = vec![("HOME".into(), self.0.path().into())];
        all.extend(vars.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        Surroundings::fixed(Fixed { vars: all, cwd: self.0.path().into(), ..Fixed::default() })
    }

    fn load(&self, list: &str) -> Result<Kubeconfig, Error> {
        Kubeconfig::load(&self.surroundings(&[("KUBECONFIG", list)]), None)
    }

    fn resolve(&self, overrides: &Overrides) -> Result<Target, Error> {
        let surroundings = self.surroundings(&[]);
        Kubeconfig::load(&surroundings, None)?.resolve(overrides, &surroundings)
    }
}

fn classes(error: &Error) -> Vec<Class> {
    error.problems().iter().map(|problem| problem.class).collect()
}

#[test]
fn a_problem_says_file_line_user_and_field() {
    let home = Home::with(&[("k", &EXEC.replace("command: ./plugin", "command: 7"))]);
    let error = home.load("k").unwrap_err();
    let [problem] = error.problems() else { panic!("{error:?}") };
    assert_eq!(problem.class, Class::Load);
    assert_eq!(problem.place.file.as_deref(), Some(Path::new("k")));
    assert_eq!(problem.place.line, 13);
    assert_eq!(problem.field.as_deref(), Some("exec.command"));
    assert_eq!(
        error.to_string(),
        "user `u`: `exec.command` must be a text, not a number: are quotes missing? (`k`, line 13)"
    );
    assert_eq!(error.kind(), Kind::BadConfig);
}

#[test]
fn all_problems_of_all_files_are_reported_together() {
    let home = Home::with(&[
        ("a", "clusters: 1\nusers:\n- name: u\n  user: {token: 1, exec: [x]}\n"),
        ("b", "contexts: {}\n"),
        ("c", "a: [\n"),
    ]);
    let error = home.load("a:b:c").unwrap_err();
    assert_eq!(classes(&error), [Class::Load; 5]);
    assert_eq!(error.notes().len(), 5);
}

#[test]
fn no_value_of_a_file_stands_in_an_error_or_in_debug() {
    const SECRET: &str = "hunter2";
    let twice = format!(
        "users:\n- name: u\n  user: {{token: {SECRET}}}\n- name: u\n  user: {{password: {SECRET}}}\n"
    );
    let odd = format!(
        "users:\n- name: u\n  user: {{token: [{SECRET}], password: {{a: {SECRET}}}, exec: {SECRET}}}\n"
    );
    let broken = format!("users:\n- name: u\n  user: {{token: {SECRET}, : [}}\n");
    for text in [twice, odd, broken] {
        let error = Kubeconfig::from_bytes(text.as_bytes()).unwrap_err();
        let shown = format!("{error} {error:#} {error:?} {:?}", error.problems());
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let whole = EXEC.replace("https://h:1", "https://u:hunter2@h:1").replace(
        "Never}",
        "Never, args: [hunter2], env: [{name: A, value: hunter2}]}\n    token: hunter2",
    );
    let config = Kubeconfig::from_bytes(whole.as_bytes()).unwrap();
    let target = config.resolve(&Overrides::default(), &Surroundings::fixed(Fixed::default()));
    let shown = format!("{config:?} {:?}", target.unwrap());
    assert!(!shown.contains(SECRET), "{shown}");
}

#[test]
fn all_validation_problems_come_together_with_their_places() {
    let text = EXEC
        .replace("command: ./plugin, interactiveMode: Never", "env: [{value: x}]")
        .replace("server: 'https://h:1'", "proxy-url: p");
    let home = Home::with(&[(".kube/config", &text)]);
    let error = home.resolve(&Overrides::default()).unwrap_err();
    assert_eq!(
        classes(&error),
        [
            Class::ExecCommandMissing,
            Class::ExecVariableUnnamed,
            Class::ExecModeMissing,
            Class::NoServer,
            Class::ProxyUrlInvalid
        ]
    );
    assert!(error.problems().iter().all(|p| p.place.line > 0 && p.to_string().contains("`: ")));
}

/// Every field on a line of its own: the problems tell these lines, not those of the entries.
#[test]
fn a_problem_says_the_line_of_the_field_itself() {
    let text = "\
current-context: x
contexts:
- name: x
  context:
    cluster: c
    user: u
clusters:
- name: c
  cluster:
    server: https://h:1
    certificate-authority: /nowhere/ca.pem
    proxy-url: ftp://p
users:
- name: u
  user:
    as-groups: [g]
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: p
      interactiveMode: never
      env:
      - name: A
        value: a
      - value: b
    username: ann
    token: t
";
    let places = |error: &Error| {
        let place =
            |p: &keyward_host::kubeconfig::Problem| (p.field.clone().unwrap(), p.place.line);
        error.problems().iter().map(place).collect::<Vec<_>>()
    };
    let home = Home::with(&[(".kube/config", text)]);
    let error = home.resolve(&Overrides::default()).unwrap_err();
    let expected = [
        ("exec.env[1].name", 24),
        ("exec.interactiveMode", 20),
        ("token", 26),
        ("as", 16),
        ("proxy-url", 12),
        ("certificate-authority", 11),
    ];
    assert_eq!(places(&error), expected.map(|(field, line)| (field.into(), line)));

    let wrong = text.replace("value: b", "value: 1").replace("value: a", "value: [a]");
    let home = Home::with(&[(".kube/config", &wrong)]);
    let error = home.resolve(&Overrides::default()).unwrap_err();
    let expected = [("exec.env[0].value", 23), ("exec.env[1].value", 24)];
    assert_eq!(places(&error), expected.map(|(field, line)| (field.into(), line)));

    let lost = text[..text.find("    as-groups").unwrap()].replace("ftp", "http");
    let lost = lost.replace("    certificate-authority: /nowhere/ca.pem\n", "");
    let lost = lost.replace("name: u\n  user:\n", "name: other\n  user: {}\n");
    let home = Home::with(&[(".kube/config", &lost)]);
    let target = home.resolve(&Overrides::default()).unwrap();
    assert!(target.warnings[0].ends_with("config`, line 6)"), "{:?}", target.warnings);
}

#[test]
fn a_fault_of_a_flag_is_not_blamed_on_the_file() {
    let text = EXEC.replace("    exec: {", "    password: p\n    extra: {");
    let home = Home::with(&[(".kube/config", &text)]);
    let said = |overrides: Overrides| home.resolve(&overrides).unwrap_err().to_string();
    let text = |text: &str| Some(text.to_owned());
    let proxy = said(Overrides { proxy_url: text("ftp://x"), ..Overrides::default() });
    assert!(proxy.starts_with("`--proxy-url` ") && !proxy.contains("line"), "{proxy}");
    let certificate_authority = text("nope.pem");
    let authority = said(Overrides { certificate_authority, ..Overrides::default() });
    assert!(authority.starts_with("`--certificate-authority` cannot be read: "), "{authority}");
    assert!(authority.contains("nope.pem") && !authority.contains("line"), "{authority}");
    let token = Some(Secret::new("T"));
    let both = Overrides { token: token.clone(), username: text("u"), ..Overrides::default() };
    assert_eq!(said(both), "`--token` and `--username` are both set: only one is allowed");
    let half = said(Overrides { token, ..Overrides::default() });
    assert!(half.starts_with("user `u`: `password` and `--token` are both set"), "{half}");
    assert!(half.ends_with("config`, line 13)"), "{half}");
    let groups =
        keyward_host::kubeconfig::Impersonate { groups: vec!["g".into()], ..Default::default() };
    let group = said(Overrides { impersonate: groups, ..Overrides::default() });
    assert_eq!(group, "`--as` is missing, but `--as-group` is set");
    let client_certificate = Some(home.path(".kube/config").display().to_string());
    let key = said(Overrides { client_certificate, ..Overrides::default() });
    assert_eq!(key, "`--client-key` is missing, but there is a client certificate");
}

#[test]
fn an_authority_that_is_a_folder_is_named_with_the_cause() {
    let text =
        EXEC.replace("server: 'https://h:1'", "server: 'https://h:1', certificate-authority: .");
    let home = Home::with(&[("k", &text)]);
    let surroundings = home.surroundings(&[]);
    let config = home.load("k").unwrap();
    let error = match config.resolve(&Overrides::default(), &surroundings) {
        Err(error) => error,
        Ok(target) => target.check_authority().unwrap_err(),
    };
    let said = error.to_string();
    let named = format!(
        "cannot be read: `{}`: ",
        home.path("").display().to_string().trim_end_matches('/')
    );
    assert!(said.contains(&named), "{said}");
}

#[test]
fn paths_are_relative_to_the_file_they_stand_in() {
    let home = Home::with(&[("sub/k", EXEC)]);
    let surroundings = home.surroundings(&[("KUBECONFIG", "sub/k")]);
    let config = Kubeconfig::load(&surroundings, None).unwrap();
    let target = config.resolve(&Overrides::default(), &surroundings).unwrap();
    let command = target.user.value.exec.unwrap().command;
    assert_eq!(Path::new(&command), home.path("sub/plugin"));
    // What is written again is what was read: it may be used from elsewhere.
    assert_eq!(config.users[0].value.exec.as_ref().unwrap().command, "./plugin");
}

#[test]
fn the_legacy_file_is_read_and_nothing_is_written() {
    let home = Home::with(&[(".kube/.kubeconfig", EXEC)]);
    let target = home.resolve(&Overrides::default()).unwrap();
    assert_eq!(target.context, "x");
    assert!(target.warnings[0].contains(".kubeconfig"), "{:?}", target.warnings);
    assert!(!home.path(".kube/config").exists());
}

#[test]
fn a_list_may_miss_files_but_a_named_file_must_be_there() {
    let home = Home::with(&[("k", EXEC)]);
    let config = home.load("nowhere::k:k").unwrap();
    let there: Vec<_> = config.files.iter().map(|(_, there)| *there).collect();
    assert_eq!(there, [false, true]);
    let surroundings = home.surroundings(&[("KUBECONFIG", "k")]);
    let error = Kubeconfig::load(&surroundings, Some(Path::new("nowhere"))).unwrap_err();
    assert_eq!((error.kind(), classes(&error)), (Kind::NotFound, vec![Class::FileNotFound]));
    assert!(error.to_string().contains("`nowhere`"), "{error}");
}

#[test]
fn without_a_current_context_the_error_says_which_there_are() {
    let home = Home::with(&[(".kube/config", &EXEC.replace("current-context: x\n", ""))]);
    let error = home.resolve(&Overrides::default()).unwrap_err();
    assert_eq!(classes(&error), [Class::EmptyConfig]);
    assert_eq!(error.hint(), Some("choose a context with `--context`: `x`"));
}

#[test]
fn an_unknown_user_warns_and_in_strict_mode_fails() {
    let home = Home::with(&[(".kube/config", &EXEC.replace("user: u}", "user: nobody}"))]);
    let target = home.resolve(&Overrides::default()).unwrap();
    assert!(target.warnings[0].contains("`nobody`"), "{:?}", target.warnings);
    let strict = Overrides { strict: true, ..Overrides::default() };
    assert_eq!(classes(&home.resolve(&strict).unwrap_err()), [Class::UserNotFound]);
}

#[test]
fn credentials_stay_at_home_when_the_server_is_not_https() {
    for server in ["http://h:1", "h:1"] {
        let home = Home::with(&[(".kube/config", &EXEC.replace("https://h:1", server))]);
        let target = home.resolve(&Overrides::default()).unwrap();
        assert!(target.user.value.exec.is_none());
        assert!(target.warnings[0].contains("are not sent"), "{:?}", target.warnings);
        let strict = Overrides { strict: true, ..Overrides::default() };
        assert_eq!(classes(&home.resolve(&strict).unwrap_err()), [Class::NotHttps]);
    }
}

#[test]
fn a_removed_provider_is_refused_with_what_to_use_instead() {
    for (name, instead) in [("gcp", "gke-gcloud-auth-plugin"), ("azure", "kubelogin")] {
        let exec = EXEC.find("    exec:").unwrap();
        let text = format!("{}    auth-provider: {{name: {name}}}\n", &EXEC[..exec]);
        let home = Home::with(&[(".kube/config", &text)]);
        let error = home.resolve(&Overrides::default()).unwrap().check_user().unwrap_err();
        assert_eq!(classes(&error), [Class::ProviderRemoved]);
        assert!(error.hint().unwrap().contains(instead), "{error:#}");
    }
}

#[test]
fn overrides_replace_and_clear_what_would_contradict_them() {
    let text = EXEC.replace(
        "server: 'https://h:1'",
        "server: 'https://h:1', tls-server-name: other, certificate-authority-data: Yw==",
    );
    let home = Home::with(&[(".kube/config", &text)]);
    let target = home
        .resolve(&Overrides {
            server: Some("https://other/p?q".into()),
            insecure_skip_tls_verify: Some(true),
            proxy_url: Some("HTTP://p:1".into()),
            token: Some(Secret::new("t")),
            namespace: Some("n".into()),
            ..Overrides::default()
        })
        .unwrap();
    assert_eq!(target.cluster.value.server, "https://other/p");
    assert_eq!(target.cluster.value.tls_server_name, "");
    assert_eq!(target.cluster.value.proxy_url, "http://p:1");
    assert!(target.cluster.value.certificate_authority_data.is_empty());
    assert!(target.cluster.value.insecure_skip_tls_verify);
    assert!(target.namespace_overridden);
    assert!(target.plugin().is_none() && target.user.value.exec.is_some());
}

#[test]
fn flattened_and_minified_it_reads_back_as_the_same() {
    let text = EXEC
        .replace("{server: 'https://h:1'}", "{server: 'https://h:1', certificate-authority: ca}")
        .replace("contexts:\n", "contexts:\n- name: other\n  context: {cluster: c, user: v}\n")
        + "    client-key: key\n    extensions: [{name: e, extension: {b: 1, a: [1.50, null]}}]\n\
           extensions: [{name: f, extension: <&>}]\npreferences: {colors: true}\n";
    let home = Home::with(&[("d/k", &text), ("d/ca", "CA"), ("d/key", "KEY")]);
    let surroundings = home.surroundings(&[("KUBECONFIG", "d/k")]);
    let config = Kubeconfig::load(&surroundings, None).unwrap();
    let small = config.flatten(&surroundings).unwrap().minify(None).unwrap();
    assert_eq!(small.contexts.len(), 1);
    let written = small.to_json();
    let again = Kubeconfig::from_bytes(written.expose().as_bytes()).unwrap();
    assert_eq!(again.clusters[0].value.certificate_authority_data, b"CA");
    assert_eq!(again.users[0].value.client_key_data, Secret::new("KEY"));
    let extension = &again.users[0].value.extensions[0].value;
    assert_eq!(extension.to_json(), r#"{"a":[1.5,null],"b":1}"#);
    assert!(again.preferences_colors);
    assert_eq!(again.to_json(), written);
}

/// The original proposal: what a plugin is told of the cluster shadows the kubeconfig's cluster,
/// under the same names, but for the path of the certificate authority and the extensions, of which
/// the reserved one is `config`.
#[test]
fn a_plugin_is_told_every_field_the_kubeconfigs_cluster_has() {
    let extension = Named::new("client.authentication.k8s.io/exec", Node::from_yaml(b"x").unwrap());
    // Every field, so that a new one does not compile until it is filled in here.
    let cluster = Cluster {
        server: "https://h:1".into(),
        tls_server_name: "n".into(),
        insecure_skip_tls_verify: true,
        certificate_authority: "/ca".into(),
        certificate_authority_data: b"CA".to_vec(),
        proxy_url: "http://p:1".into(),
        disable_compression: true,
        extensions: vec![extension],
    };
    let text = EXEC.replace("Never}", "Never, provideClusterInfo: true}");
    let mut config = Kubeconfig::from_bytes(text.as_bytes()).unwrap();
    config.clusters[0].value = cluster;
    let written = config.to_json();

    config.clusters[0].value.certificate_authority.clear();
    let surroundings = Surroundings::fixed(Fixed { cwd: "/".into(), ..Fixed::default() });
    let target = config.resolve(&Overrides::default(), &surroundings).unwrap();
    let settings = PlanSettings::default();
    let draft = Draft::new(target, &Rules::default(), &surroundings, settings);
    let request = draft.plugin().unwrap().request.as_ref().unwrap().to_json();

    let mut expected = keys(written.expose(), |node| {
        node.get("clusters").unwrap().list("").unwrap().unwrap()[0].get("cluster").unwrap().clone()
    });
    expected.retain(|key| key != "certificate-authority" && key != "extensions");
    expected.push("config".into());
    expected.sort_unstable();
    let told = keys(&request, |node| node.get("spec").unwrap().get("cluster").unwrap().clone());
    assert_eq!(told, expected);
}

fn keys(json: &str, part: impl Fn(&Node) -> Node) -> Vec<String> {
    let node = part(&Node::from_yaml(json.as_bytes()).unwrap());
    node.map("").unwrap().unwrap().iter().map(|entry| entry.key.clone()).collect()
}

#[test]
fn ten_thousand_contexts_are_no_trouble() {
    use std::fmt::Write;
    let mut text = String::from("current-context: x9999\ncontexts:\n");
    for i in 0..10_000 {
        let _ = writeln!(text, "- name: x{i}\n  context: {{cluster: c{i}, user: u{i}}}");
    }
    text.push_str("clusters:\n");
    for i in 0..10_000 {
        let _ = writeln!(text, "- name: c{i}\n  cluster: {{server: 'https://h{i}'}}");
    }
    let home = Home::with(&[("a", &text), ("b", &text)]);
    let surroundings = home.surroundings(&[("KUBECONFIG", "a:b")]);
    let config = Kubeconfig::load(&surroundings, None).unwrap();
    assert_eq!(config.contexts.len(), 10_000);
    let target = config.resolve(&Overrides::default(), &surroundings).unwrap();
    assert_eq!(target.cluster.value.server, "https://h9999");
}

#[test]
fn what_is_in_memory_needs_its_current_context_even_if_another_is_named() {
    let text = "clusters:\n- {name: c, cluster: {server: 'https://h:1'}}\n\
                contexts:\n- {name: x, context: {cluster: c}}\ncurrent-context: gone\n";
    let overrides = Overrides { context: Some("x".into()), ..Overrides::default() };
    let surroundings = Surroundings::fixed(Fixed::default());
    let config = Kubeconfig::from_bytes(text.as_bytes()).unwrap();
    let error = config.resolve(&overrides, &surroundings).unwrap_err();
    assert_eq!(error.problems()[0].class, Class::ContextNotFound, "{error}");
    // In a file, as with kubectl, the flag is enough.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, text).unwrap();
    let config = Kubeconfig::load(&surroundings, Some(&path)).unwrap();
    assert!(config.resolve(&overrides, &surroundings).is_ok());
}

#[test]
fn an_authority_that_the_plugin_is_to_be_told_of_is_missed_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let text = "clusters:\n- {name: c, cluster: {server: 'https://h:1', certificate-authority: .}}\n\
                contexts:\n- {name: x, context: {cluster: c, user: u}}\ncurrent-context: x\n\
                users:\n- {name: u, user: {exec: {apiVersion: n/v1, command: p, interactiveMode: Never, \
                provideClusterInfo: true}}}\n";
    let surroundings = Surroundings::fixed(Fixed::default());
    for (text, first) in [
        (text.to_owned(), Class::CaUnreadable),
        (text.replace("true", "false"), Class::ExecVersionUnsupported),
    ] {
        std::fs::write(&path, text).unwrap();
        let config = Kubeconfig::load(&surroundings, Some(&path)).unwrap();
        let target = config.resolve(&Overrides::default(), &surroundings).unwrap();
        let error = target.check_user().unwrap_err();
        assert_eq!(error.problems()[0].class, first, "{error}");
    }
}
