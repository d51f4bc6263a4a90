//! `cargo xtask storm`: a background proxy is started, stopped, killed and upgraded while clients use it.

use crate::{e2e, packages, sh};

/// How many random changes there are unless told otherwise.
const CHANGES: &str = "500";

/// Gives the test of the proxy Helm and Python as clients, and runs it.
pub fn run(args: &[String]) -> Result<bool, String> {
    let (mut changes, mut seed) = (CHANGES.to_owned(), "1".to_owned());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = args.next().filter(|value| value.parse::<u64>().is_ok());
        let value = value.ok_or(format!("`{arg}` needs a number"))?.clone();
        match arg.as_str() {
            "--changes" => changes = value,
            "--seed" => seed = value,
            other => return Err(format!("`{other}` is not known")),
        }
    }
    packages::install()?;
    let helm = e2e::helm(true)?.ok_or("there is no Go, which builds Helm")?;
    let python = e2e::python()?;
    let mut test = sh::cargo();
    test.args(["test", "--package", "keyward-cli", "--test", "proxy", "--"]);
    test.args(["service::storm", "--nocapture"]);
    test.env("KEYWARD_STORM_HELM", helm).env("KEYWARD_STORM_PYTHON", python);
    sh::run(test.env("KEYWARD_PROXY_CHANGES", changes).env("KEYWARD_PROXY_SEED", seed))
}
