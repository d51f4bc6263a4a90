#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::HashMap, fs, os::unix::fs::PermissionsExt as _};

use keyward_host::kubeconfig::{ApiVersion, Exec, InteractiveMode};
use keyward_protocol::{Secret, exec::Version};

use super::*;

/// A home directory with a plugin in it, and an environment that can be changed.
struct Shell {
    root: tempfile::TempDir,
    command: &'static str,
    args: Vec<String>,
    vars: BTreeMap<String, String>,
    files: Files,
    registration: Option<Registration>,
}

impl Shell {
    fn new(command: &'static str, args: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().display().to_string();
        fs::create_dir(root.path().join("bin")).unwrap();
        let mut shell = Self {
            root,
            command,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            vars: BTreeMap::new(),
            files: Files::default(),
            registration: None,
        };
        shell.set("HOME", &home);
        shell.set("PATH", &format!("{home}/bin:/usr/bin:/bin"));
        shell.binary(command);
        shell
    }

    /// A program that is not a script.
    fn binary(&self, name: &str) {
        let path = self.root.path().join("bin").join(name);
        fs::copy("/bin/true", &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn set(&mut self, name: &str, value: &str) {
        self.vars.insert(name.to_owned(), value.to_owned());
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn surroundings(&self) -> Surroundings {
        let own = |(n, v): (&String, &String)| (n.into(), v.into());
        Surroundings::fixed(Fixed {
            vars: self.vars.iter().map(own).collect(),
            cwd: self.root.path().to_owned(),
            ..Fixed::default()
        })
    }

    fn register(&mut self, env: &[(&str, &str)]) {
        let exec = Exec {
            command: self.command.into(),
            args: self.args.clone(),
            env: env.iter().map(|(n, v)| ((*n).to_owned(), Secret::new(*v))).collect(),
            api_version: ApiVersion::Known(Version::V1),
            interactive_mode: InteractiveMode::IfAvailable,
            ..Exec::default()
        };
        let place = Path::new("/k/config");
        self.registration =
            Some(Registration::new(&exec, place, "ann", &self.surroundings()).unwrap());
    }

    fn look(&mut self) -> Selected {
        let args: Vec<_> = self.args.iter().map(|arg| arg.clone().into_bytes()).collect();
        let own = |(n, v): (&String, &String)| (n.clone().into_bytes(), v.clone().into_bytes());
        let environment: Vec<_> = self.vars.iter().map(own).collect();
        let asker = Asker {
            command: self.command.as_bytes(),
            args: &args,
            environment: &environment,
            directory: self.root.path(),
            api_version: "client.authentication.k8s.io/v1",
            cluster: None,
        };
        Selected::of(self.registration.as_ref(), &asker, &mut self.files)
    }

    fn key(&mut self) -> [u8; 32] {
        self.look().key
    }

    /// Whether `change` leads to another identity.
    fn changes(&mut self, change: impl FnOnce(&mut Self)) -> bool {
        let before = self.key();
        change(self);
        before != self.key()
    }
}

const EKS: &[&str] = &["--region", "eu-west-1", "eks", "get-token", "--cluster-name", "prod"];

/// Switches eight variables and four files at random, as seen by a plugin that echoes its inputs: a
/// key never maps to two answers, and earlier states are found again, from four shells that differ
/// in harmless variables.
fn random_switches(mut shell: Shell, variables: &[&str; 8], files: &[&str; 4], rounds: usize) {
    let mut chance = fastrand::Rng::with_seed(20_261_117);
    let mut answers: HashMap<[u8; 32], String> = HashMap::new();
    let mut contents = [0; 4];
    for round in 0..rounds {
        if round % 16 == 0 {
            let value = ["", "a", "b"][chance.usize(..3)];
            let name = variables[chance.usize(..8)];
            if value.is_empty() {
                shell.vars.remove(name);
            } else {
                shell.set(name, value);
            }
            // All of the same length, and often within one tick of the file system's clock.
            let file = chance.usize(..4);
            contents[file] = chance.usize(..2);
            shell.write(files[file], &format!("account {}", contents[file]));
        }
        let number = chance.usize(..4).to_string();
        for name in ["TERM_SESSION_ID", "SHLVL", "VSCODE_PID", "SSH_TTY"] {
            shell.set(name, &number);
        }
        let seen: Vec<_> = variables.iter().map(|name| shell.vars.get(*name)).collect();
        let answer = format!("{seen:?} {contents:?}");
        let kept = answers.entry(shell.key()).or_insert_with(|| answer.clone());
        assert_eq!(*kept, answer, "round {round}: an answer of another identity");
    }
    let identities: std::collections::HashSet<_> = answers.values().collect();
    let misses = answers.len() - identities.len();
    assert!(misses * 100 <= rounds, "{misses} of {rounds} asks were needless misses");
    assert!(identities.len() > rounds / 100, "the switches made only {}", identities.len());
}

#[test]
fn no_key_stands_for_two_identities_of_a_known_plugin() {
    let mut shell = Shell::new("aws", EKS);
    shell.register(&[]);
    for file in [".aws/config", ".aws/credentials", ".aws/sso/cache/a.json", "token"] {
        shell.write(file, "account 0");
    }
    let token = shell.root.path().join("token").display().to_string();
    shell.set("AWS_WEB_IDENTITY_TOKEN_FILE", &token);
    random_switches(
        shell,
        &[
            "AWS_PROFILE",
            "AWS_DEFAULT_PROFILE",
            "AWS_REGION",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_ROLE_ARN",
            "AWS_ENDPOINT_URL_STS",
        ],
        &[".aws/config", ".aws/credentials", ".aws/sso/cache/a.json", "token"],
        4000,
    );
}

#[test]
fn no_key_stands_for_two_identities_of_an_unknown_plugin() {
    let mut shell = Shell::new("corp-login", &["token"]);
    let files = ["one", "two", "three", "four"];
    for file in files {
        shell.write(file, "account 0");
    }
    shell.register(&[]);
    let root = shell.root.path().to_owned();
    if let Some(registration) = &mut shell.registration {
        registration.identity_files = files.iter().map(|file| root.join(file)).collect();
    }
    let variables = ["USER", "CORP", "A", "B", "C", "KUBECONFIG", "HTTPS_PROXY", "TEAM"];
    random_switches(shell, &variables, &files, 4000);
}

#[test]
fn parts_that_only_look_alike_when_joined_are_different() {
    let mut keys: Vec<_> = [&["a b"][..], &["a", "b"], &["a", "", "b"], &["a b", ""], &["ab"]]
        .into_iter()
        .map(|args| {
            let mut shell = Shell::new("corp-login", args);
            // One directory for all, so that nothing else differs.
            shell.vars.clear();
            shell.command = "/bin/true";
            let args: Vec<_> = shell.args.iter().map(|arg| arg.clone().into_bytes()).collect();
            let asker = Asker {
                command: b"/bin/true",
                args: &args,
                environment: &[],
                directory: Path::new("/"),
                api_version: "v1",
                cluster: None,
            };
            Selected::of(None, &asker, &mut Files::default()).key
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 5);
}

#[test]
fn an_account_switch_in_a_file_is_another_identity_for_each_known_plugin() {
    let issuer = ["get-token", "--oidc-issuer-url=https://i", "--oidc-client-id=c"];
    for (command, args, files) in [
        ("aws", EKS, &[".aws/config", ".aws/credentials", ".aws/sso/cache/x.json"][..]),
        (
            "aws-iam-authenticator",
            &["token", "-i", "prod"],
            &[".aws/config", ".aws/login/cache/x.json"],
        ),
        (
            "gke-gcloud-auth-plugin",
            &[],
            &[
                ".config/gcloud/active_config",
                ".config/gcloud/configurations/config_default",
                ".config/gcloud/credentials.db",
            ],
        ),
        (
            "kubelogin",
            &["get-token", "--login", "azurecli", "--server-id", "s"],
            &[".azure/azureProfile.json", ".kube/cache/kubelogin/auth.json"],
        ),
        // A flag whose name begins another's comes after it.
        (
            "kubelogin",
            &[
                "get-token",
                "--login=spn",
                "--server-id=s",
                "--client-certificate-password",
                "x",
                "--client-certificate",
                "client.pem",
            ],
            &["client.pem"],
        ),
        ("kubectl-oidc_login", &issuer, &[".kube/cache/oidc-login/0123"]),
        (
            "tsh",
            &["kube", "credentials", "--kube-cluster=prod"],
            &[".tsh/current-profile", ".tsh/proxy.example.com.yaml"],
        ),
    ] {
        let mut shell = Shell::new(command, args);
        shell.register(&[]);
        assert_ne!(shell.look().profile, Profile::Unknown, "{command}");
        assert!(!shell.changes(|shell| shell.set("UNRELATED", "x")), "{command} counts everything");
        for file in files {
            assert!(shell.changes(|shell| shell.write(file, "ann")), "{command} {file} appears");
            assert!(shell.changes(|shell| shell.write(file, "bea")), "{command} {file} changes");
            assert!(!shell.changes(|shell| shell.write(file, "bea")), "{command} {file} rewritten");
        }
    }
}

#[test]
fn a_script_that_bears_the_name_of_a_known_plugin_counts_every_variable() {
    let mut shell = Shell::new("aws", EKS);
    shell.register(&[]);
    assert_eq!(shell.look().profile, Profile::Aws);
    shell.write("bin/aws", "#!/usr/bin/env bash\nexec real-aws --profile \"$TEAM\" \"$@\"\n");
    assert_eq!(shell.look().profile, Profile::Unknown);
    assert!(shell.changes(|shell| shell.set("TEAM", "blue")));
    shell.write("bin/aws", "#!/usr/bin/python3\n");
    assert_eq!(shell.look().profile, Profile::Aws);
}

#[test]
fn what_is_not_registered_counts_every_variable_and_is_never_run() {
    let mut shell = Shell::new("aws", EKS);
    assert!(shell.changes(|shell| shell.set("TEAM", "blue")));
    assert!(!shell.changes(|shell| shell.set("TERM", "vt100")));
}

#[test]
fn the_agent_runs_nothing_that_was_not_registered_so() {
    let mut shell = Shell::new("aws", EKS);
    shell.register(&[]);
    assert_eq!(shell.look().lease_only, None);
    for (name, value) in [
        ("LD_PRELOAD", "/tmp/evil.so"),
        ("PYTHONPATH", "/tmp/evil"),
        ("AWS_CONFIG_FILE", "/tmp/evil"),
        ("HOME", "/tmp/evil"),
    ] {
        let before = shell.vars.clone();
        shell.set(name, value);
        assert!(shell.look().lease_only.is_some(), "{name}");
        shell.vars = before;
    }
    let evil = shell.root.path().join("evil");
    fs::create_dir(&evil).unwrap();
    fs::copy(shell.root.path().join("bin/aws"), evil.join("aws")).unwrap();
    let path = format!("{}:{}", evil.display(), shell.vars["PATH"]);
    let found = shell.changes(|shell| shell.set("PATH", &path));
    assert!(found, "another program is another identity");
    assert!(shell.look().lease_only.is_some());
    let run = shell.look().variables;
    let registered = shell.registration.as_ref().unwrap().path.clone();
    assert!(run.contains(&("PATH".into(), registered.into())), "the run has the caller's PATH");
}

#[test]
fn a_program_started_from_a_desktop_shares_with_the_shell() {
    let mut shell = Shell::new("aws", EKS);
    shell.register(&[]);
    let of_shell = shell.look();
    shell.set("PATH", "/nowhere");
    let of_desktop = shell.look();
    assert_eq!(of_shell.program, of_desktop.program);
    assert!(of_shell.key == of_desktop.key);
    assert_eq!(of_desktop.lease_only, None);
}

#[test]
fn the_working_directory_counts_where_it_decides_which_program_runs() {
    let mut shell = Shell::new("aws", EKS);
    fs::create_dir_all(shell.root.path().join("shims")).unwrap();
    fs::copy("/bin/true", shell.root.path().join("shims/aws")).unwrap();
    let path = format!("{}/shims", shell.root.path().display());
    shell.set("PATH", &path);
    shell.register(&[]);
    assert!(shell.look().lease_only.is_some());
    let args: Vec<_> = shell.args.iter().map(|arg| arg.clone().into_bytes()).collect();
    let environment = vec![(b"PATH".to_vec(), path.into_bytes())];
    let key = |directory: &str| {
        let asker = Asker {
            command: b"aws",
            args: &args,
            environment: &environment,
            directory: Path::new(directory),
            api_version: "v1",
            cluster: None,
        };
        Selected::of(None, &asker, &mut Files::default()).key
    };
    assert_ne!(key("/tmp"), key("/usr"));
    assert_eq!(key("/tmp"), key("/tmp"));
}

#[test]
fn a_configuration_that_runs_programs_counts_the_path() {
    let mut shell = Shell::new("aws", EKS);
    shell.register(&[]);
    let longer = format!("{}:/opt", shell.vars["PATH"]);
    let shorter = shell.vars["PATH"].clone();
    assert!(!shell.changes(|shell| shell.set("PATH", &longer)));
    shell.set("PATH", &shorter);
    shell.write(".aws/config", "[profile p]\ncredential_process = corp-login\n");
    assert!(shell.changes(|shell| shell.set("PATH", &longer)));
    assert!(shell.look().lease_only.is_some());
}

#[test]
fn the_cluster_counts_if_it_is_told_and_the_version_always() {
    let key = |api_version: &str, cluster: Option<&[u8]>| {
        let asker = Asker {
            command: b"/bin/true",
            args: &[],
            environment: &[],
            directory: Path::new("/"),
            api_version,
            cluster,
        };
        Selected::of(None, &asker, &mut Files::default()).key
    };
    let keys = [
        key("v1", None),
        key("v1", Some(b"")),
        key("v1", Some(b"{\"server\":\"https://a\"}")),
        key("v1", Some(b"{\"server\":\"https://b\"}")),
        key("v1beta1", None),
    ];
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys[index + 1..].contains(key), "{index}");
    }
}
