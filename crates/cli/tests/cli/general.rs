//! What holds for every command: flags, exit codes of wrong use, help, completions, pipes.

use std::process::{Command, Stdio};

use crate::stage::{Run, Stage, config, exec, gives};

#[test]
fn the_version_is_data() {
    let ran = Stage::new().run("--version");
    assert_eq!(ran.good(), concat!("keyward ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(ran.stderr, "");
}

#[test]
fn wrong_use_exits_with_two_and_prints_no_data() {
    let stage = Stage::new();
    for line in [
        "",
        "no-such-command",
        "plan --no-such-flag",
        "plan --plugin-timeout 30",
        "plan --plugin-timeout 0",
        "plan --request-timeout soon",
        "plan --plugin-env A,,B",
        "plan -o yaml",
        "plan -v=much",
        "credential --api-version v2",
        "completions tcsh",
    ] {
        let ran = stage.run(line);
        assert!(!ran.bad(2).is_empty(), "{line}: {ran:?}");
    }
}

#[test]
fn durations_are_taken_as_go_writes_them() {
    let stage = Stage::new();
    stage.kubeconfig(&config("      token: s3cr3t"));
    for flag in [
        "--plugin-timeout 1m30s",
        "--plugin-timeout 500ms",
        "--request-timeout 0",
        "--request-timeout 5",
        "--request-timeout 1.5h",
    ] {
        stage.run(&format!("credential {flag}")).good();
        stage.run(&format!("{flag} credential")).good();
    }
}

#[test]
fn flags_count_before_and_after_the_command() {
    let stage = Stage::new();
    stage.plugin("p", &gives("from-plugin"));
    stage.kubeconfig(&exec("p"));
    for line in [
        "--token given-token credential",
        "credential --token given-token",
        "credential --token=given-token",
    ] {
        assert_eq!(stage.run(line).json()["status"]["token"], "given-token", "{line}");
    }
}

#[test]
fn the_version_names_what_was_built() {
    let stage = Stage::new();
    let version = stage.run("version -o json").json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let target = version["target"].as_str().unwrap();
    assert!(target.starts_with(std::env::consts::ARCH), "{target}");
    let features = version["features"].as_array().unwrap();
    assert!(features.iter().any(|feature| feature == "proxy"), "{version}");
    let text = stage.run("version");
    let first = concat!("keyward ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(text.good().starts_with(first), "{text:?}");
    assert!(text.stdout.contains(&format!("\ntarget    {target}\n")), "{text:?}");
}

#[test]
fn every_shell_gets_a_script_that_asks_for_candidates() {
    let stage = Stage::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = stage.run(&format!("completions {shell}"));
        assert!(ran.good().contains("keyward __complete "), "{shell}: {ran:?}");
    }
}

#[test]
fn bash_accepts_its_script() {
    let script = Stage::new().run("completions bash");
    let ran = Command::new("bash").arg("-n").ran_with(script.good());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let stage = Stage::new();
    let mut keyward = stage.command(["completions", "zsh"]);
    // The read end is closed before the program can have written anything.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = keyward.stdout(writer).stderr(Stdio::piped()).ran();
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_full_disk_is_an_error() {
    for line in ["completions zsh", "--help", "plan --help"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = Stage::new().command(line.split(' ')).stdout(full).ran();
        assert!(ran.bad(1).starts_with("error: stdout could not be written\n"), "{ran:?}");
    }
}

#[test]
fn there_is_no_colour_without_a_terminal() {
    let stage = Stage::new();
    for line in ["plan --context none", "plan --help", "--no-such-flag"] {
        let ran = stage.run(line);
        assert!(!ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'), "{line}: {ran:?}");
    }
}

#[test]
fn the_log_tells_more_with_each_level() {
    let stage = Stage::new();
    stage.plugin("p", &gives("t"));
    stage.kubeconfig(&exec("p"));
    for (flag, info, debug) in
        [("", false, false), ("-v", true, false), ("-vv", true, true), ("-v=3", true, true)]
    {
        let ran = stage.run(&format!("credential {flag}"));
        ran.good();
        assert_eq!(ran.stderr.contains("info: "), info, "{flag}: {ran:?}");
        assert_eq!(ran.stderr.contains("debug: "), debug, "{flag}: {ran:?}");
    }
}

#[test]
fn a_signal_ends_the_plugin_first() {
    let stage = Stage::new();
    // Opening a named pipe waits for the other side, so nobody has to guess how far the plugin is.
    assert!(Command::new("mkfifo").arg(stage.path("started")).status().unwrap().success());
    stage.plugin("p", "echo $$ > $STAGE/started; exec sleep 300");
    stage.kubeconfig(&exec("p"));
    for (name, number) in [("TERM", 15), ("INT", 2), ("HUP", 1), ("QUIT", 3)] {
        let mut keyward = stage.command(["credential"]).stdout(Stdio::null()).spawn().unwrap();
        let plugin = std::fs::read_to_string(stage.path("started")).unwrap();
        let kill = Command::new("kill").args(["-s", name, &keyward.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let status = keyward.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(number), "{name}");
        let left = std::path::Path::new("/proc").join(plugin.trim());
        assert!(!left.exists(), "{name}: the plugin {plugin} is still there");
    }
}

#[test]
fn a_signal_that_is_to_be_ignored_is_and_the_next_one_counts() {
    let stage = Stage::new();
    assert!(Command::new("mkfifo").arg(stage.path("started")).status().unwrap().success());
    stage.plugin("p", "echo $$ > $STAGE/started; exec sleep 300");
    stage.kubeconfig(&exec("p"));
    let keyward = stage.command(["credential"]);
    // As `nohup` starts a program, and a script in the background.
    let mut deaf = Command::new("sh");
    deaf.args(["-c", "trap '' HUP INT; exec \"$0\" credential"]).arg(keyward.get_program());
    deaf.envs(keyward.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut keyward = deaf.stdout(Stdio::null()).spawn().unwrap();
    let plugin = std::fs::read_to_string(stage.path("started")).unwrap();
    let pid = keyward.id().to_string();
    let kill = |name: &str| {
        let kill = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(kill.unwrap().success());
    };
    let left = std::path::Path::new("/proc").join(plugin.trim());
    for name in ["HUP", "INT"] {
        kill(name);
        assert!(left.exists() && keyward.try_wait().unwrap().is_none(), "{name} was heard");
    }
    kill("TERM");
    let status = keyward.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert!(!left.exists(), "the plugin {plugin} is still there");
}
