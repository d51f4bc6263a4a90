//! Many processes at once, and none of them was there first.

use std::process::{Child, Stdio};

use crate::stage::{Stage, token};

fn at_once(stage: &Stage, count: usize) -> Vec<Child> {
    let start = |_| {
        let mut command = stage.kubectl();
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    (0..count).map(start).collect()
}

#[test]
fn processes_that_find_no_agent_start_one_and_make_one_run() {
    // A hundred rounds of kubectl are in `cargo xtask soak --agent`.
    for count in [20, 200] {
        let stage = Stage::new();
        for child in at_once(&stage, count) {
            assert_eq!(token(&child.wait_with_output().unwrap()), "t0ken");
        }
        assert_eq!(stage.runs(), 1, "of {count} processes");
        assert_eq!(stage.agents().len(), 1);
    }
}

#[test]
fn a_failing_plugin_is_not_run_for_each_process() {
    let stage = Stage::new();
    stage.set("fail", "no such account\n");
    for _ in 0..5 {
        for child in at_once(&stage, 10) {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("no such account"), "{said}");
        }
    }
    assert!(stage.runs() <= 3, "{} runs", stage.runs());
}
