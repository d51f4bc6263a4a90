//! Every way to misbehave, with real programs: the right class of failure, nothing left of the
//! program once we gave up, no zombie, no descriptor leaked.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod support;

use std::time::Duration;

use keyward_process::{
    FileId,
    runner::{self, Cancel, Failure, Invocation, Output, Status, Stdin},
};
use keyward_testing::misbehaviour::{Call, Class, Stage, TABLE, children, descriptors};

/// Far above what any case needs that ends by itself, on a machine that does other things too.
const LONG: Duration = Duration::from_secs(60);
/// For cases that never end.
const SHORT: Duration = Duration::from_millis(300);

#[test]
fn each_misbehaviour_ends_in_its_class_and_leaves_nothing() {
    assert!(TABLE.len() >= 40, "{} cases", TABLE.len());
    let stage = Stage::new();
    // The first run makes what stays: a thread, and the plugin itself.
    run(Class::Good, &stage.prepare(&TABLE[0])).unwrap_err();
    let before = descriptors();
    let mut wrong = Vec::new();
    for case in TABLE {
        let call = stage.prepare(case);
        let result = run(case.class, &call);
        stage.check(case, &call);
        let class = classify(&result);
        // The runner does not read answers.
        let expected = match case.class {
            Class::BadAnswer => Class::Good,
            class => class,
        };
        if class != expected {
            wrong.push(format!("{}: {class:?} instead of {expected:?}", case.name));
        }
        drop(call);
        assert_eq!(children(), Vec::<u32>::new(), "{}: zombies", case.name);
        assert_eq!(descriptors(), before, "{}: descriptors", case.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn run(class: Class, call: &Call) -> Result<Output, Failure> {
    let mut invocation = Invocation::new(&call.program);
    invocation.file_id = FileId::read(&call.program).ok();
    invocation.args.clone_from(&call.args);
    invocation.env.clone_from(&call.env);
    if let Some(bytes) = &call.stdin {
        invocation.stdin = Stdin::Request(bytes.clone().into());
    }
    invocation.budget = if call.hangs && class != Class::Stopped { SHORT } else { LONG };
    if class != Class::Stopped {
        return runner::run(&invocation, &Cancel::default());
    }
    let running = support::start(invocation);
    call.wait_until_running();
    running.cancel.cancel();
    running.wait().unwrap()
}

fn classify(result: &Result<Output, Failure>) -> Class {
    match result {
        Ok(output) => match output.status {
            Status::Code(0) => Class::Good,
            Status::Code(code) => Class::Exit(code),
            Status::Signal(signal) => Class::Signal(signal),
        },
        Err(failure) => match failure {
            Failure::NotFound => Class::NotFound,
            Failure::Directory => Class::Directory,
            Failure::Denied => Class::Denied,
            Failure::Format => Class::Format,
            Failure::Interpreter(_) => Class::Interpreter,
            Failure::Busy => Class::Busy,
            Failure::Nul(_) => Class::Nul,
            Failure::TooBig { .. } => Class::TooBig,
            Failure::TimedOut(_) => Class::TimedOut,
            Failure::TooMuchOutput(_) => Class::TooMuchOutput,
            Failure::Cancelled(_) => Class::Stopped,
            _ => Class::Start,
        },
    }
}
