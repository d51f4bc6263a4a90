//! The policy for plugins, with real programs, directories and kuberc files.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use keyward_host::{
    Error, Kind,
    rules::{Policy, Program, Rules, Verdict},
};
use keyward_process::{
    FileId,
    surroundings::{Fixed, Surroundings},
};

struct Fixture {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        Self { _folder: folder, root }
    }

    fn folder(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn program(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// `PATH` is the directory `bin`, home and working directory are the fixture.
    fn surroundings(&self, more: &[(&str, &str)]) -> Surroundings {
        let mut vars = vec![
            ("PATH".into(), self.root.join("bin").into()),
            ("HOME".into(), self.root.clone().into()),
        ];
        vars.extend(more.iter().map(|(k, v)| ((*k).into(), (*v).into())));
        Surroundings::fixed(Fixed { vars, cwd: self.root.clone(), ..Fixed::default() })
    }

    fn admit(&self, rules: &Rules, command: &str) -> Result<Program, Error> {
        rules.admit(command, &self.surroundings(&[]))
    }

    fn load(&self, kuberc: &str) -> Result<Rules, Error> {
        self.file(".kube/kuberc", kuberc);
        Rules::load(&self.surroundings(&[]), None)
    }

    /// The verdict on `plug` under this default kuberc.
    fn verdict(&self, kuberc: &str) -> Verdict {
        self.load(kuberc).unwrap().judge("plug", &self.surroundings(&[])).0
    }
}

fn listed(entries: &[&str]) -> Rules {
    let list = entries.iter().map(|e| (*e).to_owned()).collect();
    Rules::new(Policy::new("Allowlist", Some(list)).unwrap())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_program_on_the_path_is_found_and_known_again() {
    let fixture = Fixture::new();
    let plug = fixture.program("bin/plug", 0o755);
    let program = fixture.admit(&Rules::default(), "plug").unwrap();
    assert_eq!(program.path, plug);
    assert_eq!(program.file_id, FileId::read(&plug).unwrap());
    assert_eq!(program.warnings, [""; 0]);
}

#[test]
fn a_replaced_file_has_another_identity() {
    let fixture = Fixture::new();
    let plug = fixture.program("bin/plug", 0o755);
    let before = FileId::read(&plug).unwrap();
    let other = fixture.program("bin/other", 0o755);
    fs::rename(other, &plug).unwrap();
    assert_ne!(before, FileId::read(&plug).unwrap());
}

#[test]
fn a_missing_program_says_where_it_was_looked_for() {
    let fixture = Fixture::new();
    let error = fixture.admit(&Rules::default(), "ghost").unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert_eq!(error.to_string(), "plugin `ghost` was not found");
    assert_eq!(error.notes(), [("looked in", fixture.root.join("bin").display().to_string())]);
}

#[test]
fn an_explicit_path_is_never_searched_for() {
    let fixture = Fixture::new();
    fixture.program("bin/plug", 0o755);
    let error = fixture.admit(&Rules::default(), "./plug").unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    let here = fixture.program("plug", 0o755);
    assert_eq!(
        fixture.admit(&Rules::default(), "./plug").unwrap().path.canonicalize().unwrap(),
        here
    );
}

#[test]
fn a_relative_path_element_is_refused() {
    let fixture = Fixture::new();
    fixture.program("bin/plug", 0o755);
    let surroundings = fixture.surroundings(&[("PATH", "bin")]);
    let error = Rules::default().admit("plug", &surroundings).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().contains("relative element"), "{error}");
}

#[test]
fn extra_folders_are_searched_last_and_only_when_asked() {
    let fixture = Fixture::new();
    let tool = fixture.program("krew/tool", 0o755);
    assert_eq!(fixture.admit(&Rules::default(), "tool").unwrap_err().kind(), Kind::NotFound);
    let mut rules = Rules::default();
    rules.folders = vec![fixture.root.join("krew")];
    assert_eq!(fixture.admit(&rules, "tool").unwrap().path, tool);
    let first = fixture.program("bin/tool", 0o755);
    assert_eq!(fixture.admit(&rules, "tool").unwrap().path, first);
}

#[test]
fn a_file_without_execute_permission_is_there_but_fails() {
    let fixture = Fixture::new();
    let plain = fixture.program("bin/plain", 0o644);
    let error = fixture.admit(&Rules::default(), text(&plain)).unwrap_err();
    assert_eq!(error.kind(), Kind::Failed);
    let error = fixture.admit(&Rules::default(), "plain").unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.notes().iter().any(|(label, _)| *label == "passed over"), "{error:#}");
}

#[test]
fn what_everybody_can_write_is_refused_unless_named() {
    for (folder, file) in [(0o755, 0o757), (0o777, 0o755)] {
        let fixture = Fixture::new();
        let plug = fixture.program("bin/plug", file);
        fixture.folder("bin", folder);
        let error = fixture.admit(&Rules::default(), "plug").unwrap_err();
        assert_eq!(error.kind(), Kind::NotAllowed, "{error:#}");
        assert!(format!("{error:#}").contains("by everybody"), "{error:#}");

        let program = fixture.admit(&listed(&["plug"]), "plug").unwrap();
        assert_eq!(program.warnings.len(), 1, "{:?}", program.warnings);
        let mut rules = Rules::default();
        rules.trusted = vec![plug];
        assert!(fixture.admit(&rules, "plug").is_ok());
    }
}

#[test]
fn every_folder_on_the_way_counts() {
    let fixture = Fixture::new();
    let plug = fixture.program("open/shut/plug", 0o755);
    fixture.folder("open", 0o777);
    assert_eq!(fixture.admit(&Rules::default(), text(&plug)).unwrap_err().kind(), Kind::NotAllowed);
    fixture.folder("open", 0o1777);
    assert!(fixture.admit(&Rules::default(), text(&plug)).is_ok());
}

#[test]
fn links_are_followed_to_what_really_runs() {
    let fixture = Fixture::new();
    let real = fixture.program("cellar/plug", 0o755);
    fixture.folder("bin", 0o755);
    symlink("../cellar/plug", fixture.root.join("bin/plug")).unwrap();
    let program = fixture.admit(&Rules::default(), "plug").unwrap();
    assert_eq!(program.path, fixture.root.join("bin/plug"), "the name it was found by runs");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
    let error = fixture.admit(&Rules::default(), "plug").unwrap_err();
    assert!(format!("{error:#}").contains("cellar/plug"), "{error:#}");
}

#[test]
fn group_writable_warns() {
    let fixture = Fixture::new();
    fixture.program("bin/plug", 0o775);
    let program = fixture.admit(&Rules::default(), "plug").unwrap();
    assert_eq!(program.warnings.len(), 1);
    assert!(program.warnings[0].contains("by its group"), "{:?}", program.warnings);
}

#[test]
fn a_strangers_program_is_refused() {
    let fixture = Fixture::new();
    let plug = fixture.program("bin/plug", 0o755);
    // Only root can give a file away; everybody else has /proc/self/exe's owner checked elsewhere.
    if std::os::unix::fs::chown(&plug, Some(4711), None).is_err() {
        return;
    }
    let error = fixture.admit(&Rules::default(), "plug").unwrap_err();
    assert_eq!(error.kind(), Kind::NotAllowed);
    assert!(format!("{error:#}").contains("belongs to user 4711"), "{error:#}");
}

const HEAD: &str = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";

#[test]
fn kuberc_policies_are_read() {
    let fixture = Fixture::new();
    fixture.program("bin/plug", 0o755);
    for (rest, expected) in [
        ("", Verdict::Allowed),
        ("credentialPluginPolicy: AllowAll\n", Verdict::Allowed),
        ("credentialPluginPolicy: DenyAll\n", Verdict::DeniedAll),
        (
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- name: plug\n",
            Verdict::Listed("plug".into()),
        ),
        (
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- command: other\n",
            Verdict::NotListed,
        ),
        (
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- {name: plug, command: plug}\n",
            Verdict::Listed("plug".into()),
        ),
        ("aliases:\n- {name: x, command: get}\ndefaults: []\n", Verdict::Allowed),
    ] {
        assert_eq!(fixture.verdict(&format!("{HEAD}{rest}")), expected, "{rest}");
    }
    assert_eq!(fixture.verdict(""), Verdict::Allowed, "an empty file says nothing");
    assert_eq!(fixture.verdict("# nothing yet\n"), Verdict::Allowed);
}

#[test]
fn a_kuberc_that_is_not_understood_stops_plugins() {
    let fixture = Fixture::new();
    fixture.program("bin/plug", 0o755);
    for kuberc in [
        "{{{",
        "apiVersion: kubectl.config.k8s.io/v9\nkind: Preference\n",
        "kind: Preference\n",
        "apiVersion: kubectl.config.k8s.io/v1alpha1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n",
        &format!("{HEAD}credentialPluginPolcy: DenyAll\n"),
        &format!("{HEAD}credentialpluginpolicy: DenyAll\n"),
        &format!("{HEAD}credentialPluginPolicy: denyall\n"),
        &format!("{HEAD}credentialPluginPolicy: [DenyAll]\n"),
        &format!("{HEAD}credentialPluginPolicy: Allowlist\n"),
        &format!("{HEAD}credentialPluginAllowlist:\n- name: plug\n"),
        &format!(
            "{HEAD}credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- nmae: plug\n"
        ),
        &format!("{HEAD}credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- plug\n"),
        &format!(
            "{HEAD}credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- {{name: a, command: b}}\n"
        ),
        &format!(
            "apiVersion: kubectl.config.k8s.io/v1alpha1\nkind: Preference\n---\n{HEAD}credentialPluginPolicy: DenyAll\n"
        ),
        &format!("{HEAD}credentialPluginPolicy: DenyAll\n\"credentialPluginPolicy\": AllowAll\n"),
        "just a text",
    ] {
        let rules = fixture.load(kuberc).unwrap();
        let error = fixture.admit(&rules, "plug").expect_err(kuberc);
        assert_eq!(error.kind(), Kind::BadConfig, "{kuberc}");
        assert!(error.hint().is_some(), "{kuberc}");

        let file = fixture.root.join(".kube/kuberc");
        let asked_for = Rules::load(&fixture.surroundings(&[]), Some(&file));
        assert_eq!(asked_for.unwrap_err().kind(), Kind::BadConfig, "{kuberc}");
    }
}

#[test]
fn the_first_valid_document_counts() {
    let fixture = Fixture::new();
    fixture.program("bin/plug", 0o755);
    let newer =
        "apiVersion: kubectl.config.k8s.io/v2\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
    let kuberc =
        format!("{newer}--- # for today's kubectl\n{HEAD}credentialPluginPolicy: DenyAll\n");
    assert_eq!(fixture.verdict(&kuberc), Verdict::DeniedAll);
}

#[test]
fn a_fault_names_the_line() {
    let fixture = Fixture::new();
    let rules =
        fixture.load(&format!("---\n# one\n{HEAD}credentialPluginPolcy: DenyAll\n")).unwrap();
    let fault = format!("{:#}", rules.fault.unwrap());
    assert!(fault.contains("credentialPluginPolcy"), "{fault}");
    assert!(fault.contains("kuberc`, line 5"), "{fault}");
}

#[test]
fn variables_and_the_flag_choose_the_kuberc() {
    let fixture = Fixture::new();
    fixture.program("bin/plug", 0o755);
    fixture.file(".kube/kuberc", &format!("{HEAD}credentialPluginPolicy: DenyAll\n"));
    let open = fixture.file("open", HEAD);
    let policy = |vars: &[(&str, &str)], flag: Option<&Path>| {
        Rules::load(&fixture.surroundings(vars), flag).map(|rules| rules.policy)
    };
    assert_eq!(policy(&[], None).unwrap(), Policy::DenyAll);
    assert_eq!(policy(&[("KUBERC", "open")], None).unwrap(), Policy::AllowAll);
    assert_eq!(policy(&[], Some(&open)).unwrap(), Policy::AllowAll);
    assert_eq!(policy(&[("KUBERC", "nowhere")], Some(&open)).unwrap(), Policy::AllowAll);
    assert_eq!(policy(&[("KUBERC", "off")], None).unwrap(), Policy::AllowAll);
    assert_eq!(policy(&[("KUBECTL_KUBERC", "False")], None).unwrap(), Policy::AllowAll);
    for (vars, flag) in [
        (&[("KUBERC", "off")], Some(open.as_path())),
        (&[("KUBECTL_KUBERC", "false")], Some(open.as_path())),
        (&[("KUBERC", "nowhere")], None),
    ] {
        assert_eq!(policy(vars, flag).unwrap_err().kind(), Kind::BadConfig, "{vars:?}");
    }
}
