//! Every input of `fuzz/corpus` has the properties of its target, as it is and stretched.

use std::{fs, panic, path::Path};

use keyward_properties::{TARGETS, Target};

/// Long enough to show a reader whose time grows with the square of its input.
const STRETCHED: usize = 1 << 15;

fn replay(name: &str) {
    let target = Target::named(name).unwrap();
    let inputs = inputs(name);
    assert!(inputs.len() >= 10, "the corpus of `{name}` is not there");
    for (file, input) in inputs {
        let checked = panic::catch_unwind(|| {
            target.check(&input);
            target.check_stretched(&input, STRETCHED);
        });
        assert!(checked.is_ok(), "`fuzz/corpus/{name}/{file}`: see above");
    }
}

/// The corpus of a target, by file name.
fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus")).join(target);
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    let mut inputs: Vec<_> = entries.map(read).collect();
    inputs.sort();
    inputs
}

macro_rules! replays {
    ($($test:ident: $target:literal,)*) => {
        $(
            #[test]
            fn $test() {
                replay($target);
            }
        )*

        #[test]
        fn every_target_is_replayed_and_fuzzed() {
            let replayed = [$($target),*];
            let names = TARGETS.iter().map(|target| target.name);
            assert!(names.eq(replayed));
            for name in replayed {
                let target = format!("/../fuzz/fuzz_targets/{name}.rs");
                let target = env!("CARGO_MANIFEST_DIR").to_owned() + &target;
                assert!(Path::new(&target).exists(), "there is no `{target}`");
            }
        }
    };
}

replays! {
    the_agent_s_messages_are_read_by_their_properties: "agent_message",
    a_docker_config_is_read_by_its_properties: "docker_config",
    an_exec_answer_is_read_by_its_properties: "exec_answer",
    an_image_answer_is_read_by_its_properties: "image_answer",
    an_image_config_is_read_by_its_properties: "image_config",
    json_is_read_by_its_properties: "json",
    a_kubeconfig_is_read_by_its_properties: "kubeconfig",
    certificates_and_keys_are_read_by_their_properties: "pem",
    a_pkcs11_uri_is_read_by_its_properties: "pkcs11_uri",
    a_policy_is_read_by_its_properties: "policy",
    a_request_to_the_proxy_is_judged_by_the_gate_s_properties: "proxy_gate",
    a_signer_s_messages_are_read_by_their_properties: "signer_message",
    a_url_is_read_by_its_properties: "url",
    yaml_is_read_by_its_properties: "yaml",
}

/// A corpus is for everybody's test run: small.
#[test]
fn a_corpus_is_small() {
    for target in &TARGETS {
        let inputs = inputs(target.name);
        let bytes: usize = inputs.iter().map(|(_, input)| input.len()).sum();
        assert!(inputs.len() <= 100, "`{}` has {} inputs", target.name, inputs.len());
        assert!(bytes <= 300_000, "`{}` has {bytes} bytes", target.name);
    }
}
