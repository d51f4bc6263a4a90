//! The image credential provider that passes the pod's service account token on.

use std::process::ExitCode;

fn main() -> ExitCode {
    keyward_cli::Bridge::Token.main()
}
