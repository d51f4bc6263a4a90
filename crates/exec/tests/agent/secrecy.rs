//! What the agent holds is seen nowhere.

use std::fs;

use crate::stage::Stage;

const MARK: &str = "s3cr3t-MARK";

#[test]
fn a_credential_is_in_no_file_argument_environment_or_status() {
    let stage = Stage::new();
    stage.answer(MARK);
    let environment = stage.kubectl().env("API_KEY", "k3y-MARK").output().unwrap();
    assert_eq!(crate::stage::token(&environment), MARK);
    let agent = stage.agent();
    for name in ["cmdline", "environ", "comm", "status"] {
        let shown = fs::read(format!("/proc/{agent}/{name}")).unwrap();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(!shown.contains("-MARK"), "{name}: {shown}");
    }
    assert!(!stage.status().to_string().contains("-MARK"));
    fs::remove_file(stage.plugin("answer")).unwrap();
    let mut left = vec![stage.dir.path().to_owned()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if found.is_file() {
            let content = fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&content).contains("-MARK"), "{}", path.display());
        }
    }
}

#[test]
fn the_agent_keeps_no_descriptor_and_no_environment_of_whoever_started_it() {
    let stage = Stage::new();
    // Its stdout is a pipe that ends only when nobody has it any more.
    let output = stage.kubectl().env("FROM_THE_FIRST_CLIENT", "1").output().unwrap();
    assert!(output.status.success());
    let agent = stage.agent();
    for number in 0..=2 {
        let target = fs::read_link(format!("/proc/{agent}/fd/{number}")).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"));
    }
    let environment = fs::read(format!("/proc/{agent}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("FROM_THE_FIRST_CLIENT"));
    assert_eq!(fs::read_link(format!("/proc/{agent}/cwd")).unwrap().to_str(), Some("/"));
    let stat = fs::read_to_string(format!("/proc/{agent}/stat")).unwrap();
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, agent.to_string(), "a session of its own");
    let limits = fs::read_to_string(format!("/proc/{agent}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}
