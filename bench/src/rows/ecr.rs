//! `keyward-ecr` beside the tools that it replaces, with one stand-in for Amazon ECR.

use std::{os::unix::process::CommandExt as _, path::Path, process::Command, sync::LazyLock};

use super::{
    providers::{fed, judge, providers, with_keys},
    stand_in::StandIn,
    startup::starts,
};
use crate::measure::{Bar, Row, Variant};

const BARE: &str = "/bin/true";
const PROVIDER: &str = "ecr-credential-provider (Go)";
const KUBELET: &str = "ours, for the kubelet";
const HELPER: &str = "docker-credential-ecr-login (Go)";
const DOCKER: &str = "ours, for docker";

const HOST: &str = "123456789012.dkr.ecr.us-east-1.amazonaws.com";

/// A server that gives everybody the same login.
static ECR: LazyLock<Result<StandIn, String>> = LazyLock::new(|| {
    StandIn::start(|_, _| {
        format!(
            r#"{{"authorizationData":[{{"authorizationToken":"QVdTOmJlbmNo","expiresAt":4102444800.0,"proxyEndpoint":"https://{HOST}"}}]}}"#
        )
    })
});

/// A login for the kubelet and for docker.
pub fn row() -> Row {
    Row {
        unit: "ms",
        variants: vec![
            Variant { label: BARE, run: Box::new(|| starts(40, &mut Command::new(BARE))) },
            Variant {
                label: PROVIDER,
                run: Box::new(|| {
                    fed(&mut with_ecr(&judge("ecr-credential-provider"))?, &request())
                }),
            },
            Variant {
                label: KUBELET,
                run: Box::new(|| {
                    fed(with_ecr(&providers())?.arg0("ecr-credential-provider"), &request())
                }),
            },
            Variant {
                label: HELPER,
                run: Box::new(|| {
                    let mut command = with_ecr(&judge("docker-credential-ecr-login"))?;
                    fed(command.arg("get"), HOST)
                }),
            },
            Variant {
                label: DOCKER,
                run: Box::new(|| {
                    let mut command = with_ecr(&providers())?;
                    fed(command.arg0("docker-credential-ecr-login").arg("get"), HOST)
                }),
            },
        ],
        bars: vec![
            Bar {
                promise: "a login for the kubelet takes no longer than with the provider in Go",
                judge: |r| (r.ratio(KUBELET, PROVIDER), 1.0),
            },
            Bar {
                promise: "a login for docker takes no longer than with the helper in Go",
                judge: |r| (r.ratio(DOCKER, HELPER), 1.0),
            },
        ],
    }
}

/// The kubelet's request.
fn request() -> String {
    format!(
        r#"{{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"{HOST}/app"}}"#
    )
}

/// A command with keys of AWS and the stand-in. The helper in Go has a cache of its own, which would need a home.
fn with_ecr(program: &Path) -> Result<Command, String> {
    let server = ECR.as_ref().map_err(Clone::clone)?.url();
    let mut command = with_keys(program);
    command.env("AWS_ENDPOINT_URL_ECR", &server).env("AWS_ENDPOINT_URL", server);
    command.env("AWS_ECR_DISABLE_CACHE", "true").env("KEYWARD_AGENT", "off");
    Ok(command)
}
