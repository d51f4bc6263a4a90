#![no_main]

use keyward_properties::Target;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| Target::named("agent_message").expect("it is one").check(input));
