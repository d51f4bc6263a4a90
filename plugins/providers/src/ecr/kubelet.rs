//! The kubelet's protocol.

use std::time::Duration;

use keyward_plugin::{ImageQuestion, Logins, Refusal};

use keyward_protocol::text::inline;

use super::{api, not_ours, registry::Registry};
use crate::{Call, aws::Aws};

/// The annotation of a service account that names its role.
const ANNOTATION: &str = "eks.amazonaws.com/ecr-role-arn";

/// The name of the sessions of such roles.
const SESSION: &str = "ecr-credential-provider";

pub(super) fn logins(call: &Call, question: &ImageQuestion) -> Result<Logins, Refusal> {
    let host = question.registry();
    let registry = Registry::parse(host).ok_or_else(|| not_ours(host))?;
    let aws = Aws::open(call, call.question()?, None, Some(&registry.region))?;
    let role =
        question.annotation(ANNOTATION).map(str::to_owned).or_else(|| call.var("AWS_ECR_ROLE_ARN"));
    let keys = match (question.token(), role) {
        (Some(token), Some(role)) => {
            let name = format!("role `{}` for the pod's token", inline(&role));
            aws.assume_with_token(&name, &role, Some(SESSION.to_owned()), token)?
        }
        (Some(_), None) => {
            call.warn(&format!(
                "the pod's token is not used, because neither the annotation `{ANNOTATION}` nor \
                 `AWS_ECR_ROLE_ARN` names a role; the node's credentials are"
            ));
            aws.keys()?
        }
        (None, _) => aws.keys()?,
    };
    let now = call.clock.now();
    let login = api::token(call, &aws, &registry, &keys)?;
    let logins = Logins::for_registry(login.user, login.password.expose());
    Ok(match login.expires {
        Some(end) if end > now => logins.expires_at(end),
        // It says that it has ended already: it may be used once, and not kept.
        _ => logins.kept_for(Duration::ZERO),
    })
}
