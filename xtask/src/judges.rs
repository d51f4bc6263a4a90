//! The tools that the providers are compared with: in Python for all tests, in Go for `cargo xtask judges` and
//! `cargo xtask spire`.

use std::{fs, path::Path, process::Command};

use crate::{
    e2e::parts::{self, Part},
    packages, sh,
};

/// What the tests of the providers compare with, beside their sources.
const FOLDER: &str = "plugins/providers/judges";

/// Installs awscli, botocore, moto and google-auth into the target directory, in the versions of `requirements.txt`. The tests
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
        eprintln!(
            "could not install awscli, moto and google-auth, which the tests of the providers need"
        );
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
const PROGRAMS: [(&str, &str); 4] = [
    ("./verifier", "eks-verifier"),
    ("k8s.io/cloud-provider-aws/cmd/ecr-credential-provider", "ecr-credential-provider"),
    (
        "github.com/awslabs/amazon-ecr-credential-helper/ecr-login/cli/docker-credential-ecr-login",
        "docker-credential-ecr-login",
    ),
    ("github.com/GoogleCloudPlatform/docker-credential-gcr/v2", "docker-credential-gcr"),
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
    sh::run(sh::cargo().args(test).args(["--", "ecr_tools", "gar_tools", "verifier"]))
}

const SPIRE: Part =
    Part { name: "spire", from: "plugins/providers/judges/spire/go.mod", build: parts::go };

/// `cargo xtask spire`: builds SPIRE, and lets it issue an identity to `keyward-spiffe`.
pub fn spire() -> Result<bool, String> {
    if !sh::has("go") {
        return Err("there is no Go, which builds SPIRE".to_owned());
    }
    packages::install_these(&[("curl", "curl"), ("openssl", "openssl")], &[])?;
    parts::build_these(&[SPIRE], crate::root(), &sh::target().join("judges"))?;
    sh::run(sh::cargo().args(["test", "--workspace", "--test", "spire"]))
}

/// Builds aws-iam-authenticator itself, which the bench runs beside ours.
pub fn build_authenticator() -> Result<bool, String> {
    let package = "sigs.k8s.io/aws-iam-authenticator/cmd/aws-iam-authenticator";
    build_go(package, &sh::target().join("judges/aws-iam-authenticator"))
}

/// Builds the tools for Amazon ECR, which the bench runs beside ours.
pub fn build_ecr_tools() -> Result<bool, String> {
    let tools = PROGRAMS.into_iter().filter(|(_, name)| name.contains("ecr"));
    let mut built = true;
    for (package, name) in tools {
        built &= build_go(package, &sh::target().join("judges").join(name))?;
    }
    Ok(built)
}

/// Builds docker-credential-gcr, which the bench runs beside ours.
pub fn build_gcr_helper() -> Result<bool, String> {
    let package = "github.com/GoogleCloudPlatform/docker-credential-gcr/v2";
    build_go(package, &sh::target().join("judges/docker-credential-gcr"))
}

/// Builds Azure's kubelogin, which the bench runs beside ours. It has a module of its own, because it needs other
/// versions of Kubernetes' libraries than the rest.
pub fn build_kubelogin() -> Result<bool, String> {
    let place = sh::target().join("judges/azure-kubelogin");
    build_go_in("kubelogin", "github.com/Azure/kubelogin", &place)
}

/// Builds a program of the module with the judges in Go.
fn build_go(package: &str, place: &Path) -> Result<bool, String> {
    build_go_in("go", package, place)
}

fn build_go_in(module: &str, package: &str, place: &Path) -> Result<bool, String> {
    let mut build = Command::new("go");
    build.current_dir(crate::root().join(FOLDER).join(module)).args(["build", "-trimpath", "-o"]);
    sh::run(build.arg(place).arg(package))
}
