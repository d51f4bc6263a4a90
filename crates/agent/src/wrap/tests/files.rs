use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::PathBuf,
};

use super::super::{
    Pin, Wrapping,
    file::{Failure, Outcome, unwrap_file, wrap_file},
};
use super::*;

struct Home {
    root: tempfile::TempDir,
    config: PathBuf,
}

const TWO: &str = "\
users:
- name: ann
  user:
    exec: # hers
      command: aws
      args: [eks, get-token]
- name: bea
  user:
    exec:
      command: tsh
      env: [{name: TOKEN, value: canary-in-the-kubeconfig}]
";

impl Home {
    fn new(text: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let config = root.path().canonicalize().unwrap().join("config");
        fs::write(&config, text).unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o640)).unwrap();
        Self { root, config }
    }

    fn journals(&self) -> PathBuf {
        self.root.path().join("state")
    }

    fn wrap(&self, users: &[&str]) -> Result<Outcome, Failure> {
        self.wrap_pinned(users, &[])
    }

    fn wrap_pinned(&self, users: &[&str], pins: &[Pin]) -> Result<Outcome, Failure> {
        let directory = self.config.parent().unwrap();
        let wrapping = Wrapping { wrapper: WRAPPER_PATH, directory, pins, natives: &[] };
        wrap_file(&self.config, &self.journals(), &wrapping, |user| users.contains(&user), false)
    }

    fn unwrap(&self, users: &[&str]) -> Result<Outcome, Failure> {
        unwrap_file(&self.config, &self.journals(), |user| users.contains(&user), false)
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.config).unwrap()
    }
}

#[test]
fn users_come_and_go_one_by_one() {
    let home = Home::new(TWO);
    assert_eq!(home.wrap(&["ann"]).unwrap().changed, ["ann"]);
    let first = home.text();
    let second = home.wrap(&["bea"]).unwrap();
    assert_eq!((second.changed.as_slice(), second.unchanged.len()), (&["bea".to_owned()][..], 0));
    let again = home.wrap(&["ann", "bea"]).unwrap();
    assert_eq!((again.changed.len(), again.unchanged.len()), (0, 2));
    assert_eq!(home.unwrap(&["bea"]).unwrap().changed, ["bea"]);
    assert_eq!(home.text(), first);
    home.unwrap(&["ann", "bea"]).unwrap();
    assert_eq!(home.text(), TWO);
    assert!(Journal::list(&home.journals()).is_empty());
    assert_eq!(home.config.metadata().unwrap().mode() & 0o777, 0o640);
}

#[test]
fn pins_of_one_user_survive_the_wrapping_of_another() {
    let home = Home::new(TWO);
    let pin = Pin { user: "ann".into(), name: "AWS_PROFILE".into(), value: "shop".into() };
    home.wrap_pinned(&["ann"], &[pin]).unwrap();
    home.wrap(&["bea"]).unwrap();
    home.unwrap(&["bea"]).unwrap();
    assert!(home.text().contains("AWS_PROFILE"));
    home.unwrap(&["ann"]).unwrap();
    assert_eq!(home.text(), TWO);
}

const OLD: &str = "\
users:
- name: ann
  user:
    auth-provider:
      config: {client-id: kube, idp-issuer-url: https://i, refresh-token: hush}
      name: oidc
- name: bea
  user:
    exec:
      command: aws
      args: [eks, get-token]
";

#[test]
fn replaced_plugins_survive_other_changes_and_come_back() {
    let home = Home::new(OLD);
    let native = |user: &str| Native { user: user.into(), command: "/opt/keyward-oidc".into() };
    let wrap = |users: &[&str], natives: &[Native]| {
        let directory = home.config.parent().unwrap();
        let wrapping = Wrapping { wrapper: WRAPPER_PATH, directory, pins: &[], natives };
        let chosen = |user: &str| users.contains(&user);
        wrap_file(&home.config, &home.journals(), &wrapping, chosen, false).unwrap()
    };
    wrap(&["bea"], &[]);
    // From wrapped to replaced is a change.
    assert_eq!(wrap(&["ann", "bea"], &[native("ann"), native("bea")]).changed, ["bea", "ann"]);
    let both = home.text();
    assert_eq!(both.matches("/opt/keyward-oidc").count(), 2, "{both}");
    // A later plain `wrap` keeps the providers.
    assert_eq!(wrap(&["ann", "bea"], &[]).unchanged.len(), 2);
    assert_eq!(home.text(), both);
    let longer = format!("# a new first line\n{both}");
    fs::write(&home.config, longer).unwrap();
    home.unwrap(&["ann"]).unwrap();
    assert!(home.text().contains("refresh-token: hush") && home.text().contains("keyward-oidc"));
    home.unwrap(&["bea"]).unwrap();
    assert_eq!(home.text(), format!("# a new first line\n{OLD}"));
    wrap(&["bea"], &[]);
    assert!(!home.text().contains("keyward-oidc"), "what was undone stays undone");
    let journals = fs::read_dir(home.journals()).unwrap().map(|file| file.unwrap().path());
    for journal in journals {
        assert_eq!(journal.metadata().unwrap().mode() & 0o777, 0o600);
    }
}

#[test]
fn what_changed_elsewhere_stays_and_the_wrapper_goes() {
    let home = Home::new(TWO);
    home.wrap(&["ann", "bea"]).unwrap();
    let longer = format!("# a new first line\ncurrent-context: x\n{}", home.text());
    fs::write(&home.config, longer).unwrap();
    let outcome = home.unwrap(&["ann", "bea"]).unwrap();
    assert!(outcome.restyled.is_empty(), "{:?}", outcome.restyled);
    assert_eq!(home.text(), format!("# a new first line\ncurrent-context: x\n{TWO}"));
}

#[test]
fn what_a_cloud_s_program_overwrote_is_told() {
    let home = Home::new(TWO);
    home.wrap(&["ann", "bea"]).unwrap();
    assert!(Journal::list(&home.journals())[0].overwritten().is_empty());
    let (ann, _) = TWO.split_once("- name: bea").unwrap();
    fs::write(&home.config, ann).unwrap();
    assert_eq!(Journal::list(&home.journals())[0].overwritten(), ["ann", "bea"]);
    let outcome = home.wrap(&["ann"]).unwrap();
    assert_eq!(
        (outcome.changed.as_slice(), outcome.overwritten.len()),
        (&["ann".to_owned()][..], 2)
    );
    home.unwrap(&["ann"]).unwrap();
    assert_eq!(home.text(), ann);
}

#[test]
fn a_kubeconfig_of_another_machine_is_unwrapped_without_a_journal() {
    let home = Home::new(TWO);
    home.wrap(&["ann", "bea"]).unwrap();
    fs::remove_dir_all(home.journals()).unwrap();
    let outcome = home.unwrap(&["ann", "bea"]).unwrap();
    assert_eq!(outcome.restyled, ["ann", "bea"]);
    let config = Kubeconfig::from_bytes(home.text().as_bytes()).unwrap();
    let exec = |index: usize| config.users[index].value.exec.clone().unwrap();
    assert_eq!((exec(0).command.as_str(), exec(0).args.len()), ("aws", 2));
    assert_eq!((exec(1).command.as_str(), exec(1).args.len()), ("tsh", 0));
    assert!(home.text().contains("# hers"));
}

#[test]
fn a_journal_of_another_version_is_done_without() {
    let home = Home::new(TWO);
    home.wrap(&["ann", "bea"]).unwrap();
    let journal = fs::read_dir(home.journals()).unwrap().next().unwrap().unwrap().path();
    let ours = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, ours.replace("keyward wrap 1", "keyward wrap 9")).unwrap();
    assert!(Journal::list(&home.journals()).is_empty());
    assert_eq!(home.unwrap(&["ann", "bea"]).unwrap().restyled, ["ann", "bea"]);
    assert!(!home.text().contains(WRAPPER_PATH));
}

#[test]
fn the_journal_holds_no_secret_of_the_kubeconfig() {
    let home = Home::new(TWO);
    home.wrap(&["ann", "bea"]).unwrap();
    for entry in fs::read_dir(home.journals()).unwrap() {
        let path = entry.unwrap().path();
        assert!(!fs::read_to_string(&path).unwrap().contains("canary"), "{}", path.display());
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_link_stays_a_link_and_another_name_keeps_the_file() {
    let home = Home::new(TWO);
    let link = home.root.path().join("link");
    symlink(&home.config, &link).unwrap();
    let other = home.root.path().join("other");
    fs::hard_link(&home.config, &other).unwrap();
    let wrapping =
        Wrapping { wrapper: WRAPPER_PATH, directory: home.root.path(), pins: &[], natives: &[] };
    wrap_file(&link, &home.journals(), &wrapping, |_| true, false).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(home.text().contains(WRAPPER_PATH));
    assert_eq!(fs::read_to_string(&other).unwrap(), home.text());
    unwrap_file(&link, &home.journals(), |_| true, false).unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), TWO);
    let left: Vec<_> =
        fs::read_dir(home.root.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".lock")), "{left:?}");
}

#[test]
fn a_locked_kubeconfig_is_left_alone() {
    let home = Home::new(TWO);
    let lock = home.root.path().join("config.lock");
    fs::write(&lock, "").unwrap();
    assert!(matches!(home.wrap(&["ann"]), Err(Failure::Locked(_))));
    assert_eq!(home.text(), TWO);
    assert!(lock.exists(), "the lock of another program was removed");
    fs::remove_file(lock).unwrap();
    home.wrap(&["ann"]).unwrap();
}

#[test]
fn a_dry_run_writes_nothing() {
    let home = Home::new(TWO);
    let wrapping =
        Wrapping { wrapper: WRAPPER_PATH, directory: home.root.path(), pins: &[], natives: &[] };
    let outcome = wrap_file(&home.config, &home.journals(), &wrapping, |_| true, true).unwrap();
    assert_eq!(outcome.changed, ["ann", "bea"]);
    assert!(!outcome.edits.iter().any(|e| e.old.contains("canary") || e.new.contains("canary")));
    assert_eq!(home.text(), TWO);
    assert!(!home.journals().exists());
}
