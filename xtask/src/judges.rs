//! The tools that the providers are compared with: in Python for all tests, in Go for `cargo xtask judges`.

use std::{fs, path::Path, process::Command};

use crate::{packages, sh};

/// What the tests of the providers compare with, beside their sources.
const FOLDER: &str = "plugins/providers/judges";

/// Installs awscli, botocore and moto into the target directory, in the versions of `requirements.txt`. The tests
/// that need them fail if that is not possible, and name the Debian package.
pub fn install_python() -> Result<(), String> {
    let wanted = crate::root().join(FOLDER).join("python/requirements.txt");
    let place = sh::target().join("judges/python");
    let done = place.join("requirements.txt");
    let read = |path: &Path| fs::read_to_string(path).ok();
    if read(&done).is_some() && read(&done) == read(&wanted) {
        return Ok(());
    }
    if !has_venv() {
        packages::install_packages(&["python3-venv"])?;
    }
    let python = place.join("bin/python");
    let made = sh::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?
        && sh::run(
            Command::new(&python)
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--requirement",
                ])
                .arg(&wanted),
        )?;
    if !made {
        eprintln!("could not install awscli and moto, which the tests of the providers need");
        return Ok(());
    }
    fs::copy(&wanted, &done)
        .map(drop)
        .map_err(|e| format!("cannot write `{}`: {e}", done.display()))
}

fn has_venv() -> bool {
    let output = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// The programs in Go, with the names of their builds.
const PROGRAMS: [(&str, &str); 3] = [
    ("./verifier", "eks-verifier"),
    ("k8s.io/cloud-provider-aws/cmd/ecr-credential-provider", "ecr-credential-provider"),
    (
        "github.com/awslabs/amazon-ecr-credential-helper/ecr-login/cli/docker-credential-ecr-login",
        "docker-credential-ecr-login",
    ),
];

/// Builds the judges in Go, and lets them judge our tokens and logins. With `--if-possible`, says in one line if there
/// is no Go.
pub fn run(args: &[String]) -> Result<bool, String> {
    if !sh::has("go") {
        println!("judges: not run, because there is no Go");
        return Ok(args.iter().any(|arg| arg == "--if-possible"));
    }
    install_python()?;
    for (package, name) in PROGRAMS {
        if !build_go(package, &sh::target().join("judges").join(name))? {
            return Ok(false);
        }
    }
    let test = [
        "test",
        "--package",
        "keyward-providers",
        "--features",
        "go-judges",
        "--test",
        "providers",
    ];
    sh::run(sh::cargo().args(test).args(["--", "ecr_tools", "verifier"]))
}

/// Builds aws-iam-authenticator itself, which the bench runs beside ours.
pub fn build_authenticator() -> Result<bool, String> {
    let package = "sigs.k8s.io/aws-iam-authenticator/cmd/aws-iam-authenticator";
    build_go(package, &sh::target().join("judges/aws-iam-authenticator"))
}

/// Builds a program of the module with the judges in Go.
fn build_go(package: &str, place: &Path) -> Result<bool, String> {
    let mut build = Command::new("go");
    build.current_dir(crate::root().join(FOLDER).join("go")).args(["build", "-trimpath", "-o"]);
    sh::run(build.arg(place).arg(package))
}
