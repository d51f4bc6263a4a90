//! `keyward-providers` beside the tools that it replaces.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use super::startup::{self, starts};
use crate::measure::{Bar, Row, Variant};

const BARE: &str = "/bin/true";
const AWS: &str = "aws eks get-token";
const AUTHENTICATOR: &str = "aws-iam-authenticator (Go)";
const EKS: &str = "ours: keyward-eks";

/// A token for an EKS cluster with keys in the environment, which needs no network.
pub fn eks() -> Row {
    Row {
        unit: "ms",
        variants: vec![
            Variant { label: BARE, run: Box::new(|| starts(40, &mut Command::new("/bin/true"))) },
            Variant {
                label: AWS,
                run: Box::new(|| {
                    let mut command = with_keys(&judge("python/bin/aws"));
                    starts(1, command.args(["eks", "get-token", "--cluster-name", "bench"]))
                }),
            },
            Variant {
                label: AUTHENTICATOR,
                run: Box::new(|| {
                    let mut command = with_keys(&judge("aws-iam-authenticator"));
                    starts(10, command.args(["token", "-i", "bench", "--region", "us-east-1"]))
                }),
            },
            Variant {
                label: EKS,
                run: Box::new(|| {
                    let mut command = with_keys(&providers());
                    command.arg0("keyward-eks");
                    starts(40, command.args(["--cluster-name", "bench"]))
                }),
            },
        ],
        bars: vec![
            Bar {
                promise: "an EKS token takes at most a hundredth of the time of `aws`",
                judge: |r| (r.ratio(EKS, AWS), 0.01),
            },
            Bar {
                promise: "an EKS token takes at most half the time of the authenticator in Go",
                judge: |r| (r.ratio(EKS, AUTHENTICATOR), 0.5),
            },
        ],
    }
}

/// How large the program is.
pub fn size() -> Row {
    let megabytes = |path: &Path| {
        #[expect(clippy::cast_precision_loss, reason = "a file's size in megabytes")]
        let size = |meta: fs::Metadata| meta.len() as f64 / 1e6;
        fs::metadata(path).map(size).map_err(|e| format!("`{}`: {e}", path.display()))
    };
    Row {
        unit: "MB",
        variants: vec![
            Variant {
                label: AUTHENTICATOR,
                run: Box::new(move || megabytes(&judge("aws-iam-authenticator"))),
            },
            Variant { label: "ours", run: Box::new(move || megabytes(&providers())) },
        ],
        bars: vec![Bar {
            promise: "the program with all providers is at most 20 MB",
            judge: |r| (r.median("ours"), 20.0),
        }],
    }
}

fn providers() -> PathBuf {
    startup::keyward().with_file_name("keyward-providers")
}

/// A tool that `cargo xtask bench` installed beside the builds.
fn judge(name: &str) -> PathBuf {
    let target = startup::keyward().ancestors().nth(2).map(Path::to_owned).unwrap_or_default();
    target.join("judges").join(name)
}

/// A command with keys of AWS and nothing else in its environment.
fn with_keys(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    command.env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE").env("AWS_SECRET_ACCESS_KEY", "bench");
    command.env("AWS_REGION", "us-east-1").env("AWS_DEFAULT_REGION", "us-east-1");
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    command
}
