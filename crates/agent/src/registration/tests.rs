#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;

use keyward_host::kubeconfig::{ApiVersion, InteractiveMode};
use keyward_process::surroundings::Fixed;
use keyward_protocol::{Secret, exec::Version};

use super::*;

struct Place {
    root: tempfile::TempDir,
    registrations: Registrations,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        let program = root.path().join("bin/plugin");
        fs::copy("/bin/true", &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let registrations = Registrations::new(root.path().join("entries"));
        Self { root, registrations }
    }

    fn path(&self) -> String {
        format!("{}/bin", self.root.path().display())
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings::fixed(Fixed {
            vars: vec![
                ("PATH".into(), self.path().into()),
                ("HOME".into(), "/home/ann".into()),
                ("AWS_SECRET_ACCESS_KEY".into(), "canary-environment".into()),
            ],
            cwd: "/".into(),
            ..Fixed::default()
        })
    }

    fn registration(&self, args: &[&str], env: &[(&str, &str)], user: &str) -> Registration {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let own = |(n, v): &(&str, &str)| ((*n).to_owned(), Secret::new(*v));
        let exec = Exec {
            command: "plugin".into(),
            args,
            env: env.iter().map(own).collect(),
            api_version: ApiVersion::Known(Version::V1),
            interactive_mode: InteractiveMode::IfAvailable,
            ..Exec::default()
        };
        Registration::new(&exec, Path::new("/k/config"), user, &self.surroundings()).unwrap()
    }

    fn find(&mut self, args: &[&str], env: &[(&str, &str)]) -> Option<Arc<Registration>> {
        let args: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let path = self.path();
        let own = |(n, v): (&str, &str)| (n.as_bytes().to_vec(), v.as_bytes().to_vec());
        let environment =
            [("PATH", path.as_str()), ("HOME", "/home/ann")].into_iter().chain(env.iter().copied());
        let environment: Vec<_> = environment.map(own).collect();
        self.registrations.find(&Asker {
            command: b"plugin",
            args: &args,
            environment: &environment,
            directory: Path::new("/"),
            api_version: "client.authentication.k8s.io/v1",
            cluster: None,
        })
    }
}

#[test]
fn a_command_is_found_by_its_arguments_and_configured_variables() {
    let mut place = Place::new();
    for (profile, user) in [("dev", "ann"), ("prod", "bea")] {
        let registration = place.registration(&["get", "--token=x"], &[("PROFILE", profile)], user);
        place.registrations.add(&registration).unwrap();
    }
    let found = place.find(&["get", "--token=x"], &[("PROFILE", "prod")]).unwrap();
    assert_eq!(found.user, "bea");
    assert_eq!(found.program, place.root.path().join("bin/plugin"));
    assert!(place.find(&["get", "--token=x"], &[("PROFILE", "other")]).is_none());
    assert!(place.find(&["get", "--token=x"], &[]).is_none());
    assert!(place.find(&["get", "--token=", "x"], &[("PROFILE", "prod")]).is_none());
}

#[test]
fn a_registration_holds_no_value_of_an_argument_or_variable() {
    let mut place = Place::new();
    let mut registration =
        place.registration(&["--token=canary-argument"], &[("SECRET", "canary-configured")], "ann");
    registration.contexts = vec!["prod".into()];
    registration.identity_files = vec!["/etc/corp".into()];
    place.registrations.add(&registration).unwrap();
    let path = place.registrations.path(&registration);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("SECRET") && !text.contains("canary"), "{text}");
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(path.parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
    assert!(read(&path) == Some(registration));
}

#[test]
fn what_is_removed_added_or_edited_by_hand_shows_at_once() {
    let mut place = Place::new();
    let registration = place.registration(&["get"], &[], "ann");
    assert!(place.find(&["get"], &[]).is_none());
    place.registrations.add(&registration).unwrap();
    assert!(place.find(&["get"], &[]).is_some());
    // Another process adds it, so we get no notification.
    let mut other = Registrations::new(place.root.path().join("entries"));
    other.remove(&registration).unwrap();
    assert!(place.find(&["get"], &[]).is_none());
    other.add(&registration).unwrap();
    assert!(place.find(&["get"], &[]).is_some());
    let path = place.registrations.path(&registration);
    let edited = fs::read_to_string(&path).unwrap().replace("\"ann\"", "\"eve\"");
    fs::write(&path, edited).unwrap();
    let mut fresh = Registrations::new(place.root.path().join("entries"));
    assert!(fresh.list().is_empty(), "a file that is not what its name says was read");
}

#[test]
fn a_registration_of_another_version_is_ignored_until_the_command_is_registered_again() {
    let mut place = Place::new();
    let registration = place.registration(&["get"], &[], "ann");
    place.registrations.add(&registration).unwrap();
    let path = place.registrations.path(&registration);
    let ours = fs::read_to_string(&path).unwrap();
    let theirs = ours.replace("keyward registration 1", "keyward registration 9");
    assert_ne!(ours, theirs);
    fs::write(&path, theirs).unwrap();
    assert!(Registrations::new(place.root.path().join("entries")).list().is_empty());
    place.registrations.add(&registration).unwrap();
    assert!(place.find(&["get"], &[]).is_some());
}

#[test]
fn a_file_that_others_can_write_is_no_registration() {
    let mut place = Place::new();
    let registration = place.registration(&["get"], &[], "ann");
    place.registrations.add(&registration).unwrap();
    let path = place.registrations.path(&registration);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(Registrations::new(place.root.path().join("entries")).list().is_empty());
}
