//! `keyward-providers` beside the tools that it replaces.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    time::Instant,
};

use super::{
    stand_in::StandIn,
    startup::{self, megabytes, starts},
};
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

/// A metadata server that gives everybody the same token, in the words of Google and of Azure.
pub static METADATA: LazyLock<Result<StandIn, String>> = LazyLock::new(|| {
    StandIn::start(|_, _| {
        r#"{"access_token":"ya29.token","expires_in":3599,"expires_on":"4102444800","token_type":"Bearer","resource":"a"}"#.to_owned()
    })
});

pub fn providers() -> PathBuf {
    startup::keyward().with_file_name("keyward-providers")
}

/// A tool that `cargo xtask bench` installed beside the builds.
pub fn judge(name: &str) -> PathBuf {
    let target = startup::keyward().ancestors().nth(2).map(Path::to_owned).unwrap_or_default();
    target.join("judges").join(name)
}

/// Starts in one round; the figure is their mean.
pub const STARTS: u32 = 20;

/// Milliseconds for one run of a command that reads this from stdin.
pub fn fed(command: &mut Command, stdin: &str) -> Result<f64, String> {
    let path = std::env::temp_dir().join(format!("keyward-bench-stdin-{}", std::process::id()));
    fs::write(&path, stdin).map_err(|e| e.to_string())?;
    let begin = Instant::now();
    for _ in 0..STARTS {
        let input = File::open(&path).map_err(|e| e.to_string())?;
        let status = command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let name = command.get_program().display();
        let status = status.map_err(|e| format!("`{name}`: {e}"))?;
        if !status.success() {
            return Err(format!("`{name}` failed: {status}"));
        }
    }
    let took = begin.elapsed().as_secs_f64() * 1e3 / f64::from(STARTS);
    let _ = fs::remove_file(&path);
    Ok(took)
}

/// Keys of AWS, and no other source.
pub const AWS_KEYS: [(&str, &str); 5] = [
    ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
    ("AWS_SECRET_ACCESS_KEY", "bench"),
    ("AWS_REGION", "us-east-1"),
    ("AWS_DEFAULT_REGION", "us-east-1"),
    ("AWS_EC2_METADATA_DISABLED", "true"),
];

/// A command with keys of AWS and nothing else in its environment.
pub fn with_keys(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    command.envs(AWS_KEYS);
    command
}
