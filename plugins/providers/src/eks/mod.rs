//! `keyward-eks`: tokens for Amazon EKS clusters, in place of `aws eks get-token` and `aws-iam-authenticator`.

mod authenticator;
mod get_token;
mod token;
mod verify;

use std::process::ExitCode;

use keyward_plugin::{Credential, Question, Refusal};

pub use self::token::Token;
use crate::{
    Call,
    aws::{Aws, Role},
    flags::Flags,
};

/// The name of the tool whose command line differs from ours.
const AUTHENTICATOR: &str = "aws-iam-authenticator";

/// The name of role sessions that nobody named, as `aws eks get-token` has it.
const SESSION: &str = "EKSGetTokenAuth";

pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    if is_authenticator(call) { authenticator::run(call) } else { get_token::run(call) }
}

/// Whether the command line is the authenticator's: by the name, or by its word in front.
fn is_authenticator(call: &Call) -> bool {
    call.name == AUTHENTICATOR || call.args.first().is_some_and(|word| word == "token")
}

/// What a token is wanted for.
#[derive(Debug, Clone, Default)]
struct Wanted {
    cluster: String,
    region: Option<String>,
    profile: Option<String>,
    role: Option<Role>,
    /// Whether the role's session gets the name of the session that assumes it.
    forward_session: bool,
    /// What happens without a configured region. If true, the instance is asked, and `us-east-1` is taken if there is
    /// none, as the authenticator does. If false, that is an error, as for `aws`.
    asks_instance_for_region: bool,
}

impl Wanted {
    /// Finds credentials and signs the token.
    fn token(&self, call: &Call, question: &Question) -> Result<Token, Refusal> {
        let mut region = self.region.clone();
        let open = |region: Option<&str>| {
            Aws::open(call, question.clone(), self.profile.as_deref(), region)
        };
        let mut aws = open(region.as_deref())?;
        if self.asks_instance_for_region && aws.region().is_none() {
            region = Some(aws.instance_region().unwrap_or_else(|| "us-east-1".into()));
            aws = open(region.as_deref())?;
        }
        let region = aws.region().ok_or_else(crate::aws::no_region)?;
        let endpoint = aws.sts_endpoint(&region)?;
        let mut keys = aws.keys()?;
        if let Some(role) = &self.role {
            let mut role = role.clone();
            if self.forward_session {
                role.session = aws.session_name(&keys)?;
            }
            role.session.get_or_insert_with(|| SESSION.to_owned());
            keys = aws.assume(&role, &keys)?;
        }
        call.note("STS host in the token", format!("`{}`", endpoint.host));
        Token::sign(&self.cluster, &endpoint, &keys, call.clock.now())
    }

    /// Answers the client.
    fn serve(&self, call: &Call) -> Result<ExitCode, Refusal> {
        call.serve(|question| {
            let token = self.token(call, question)?;
            Ok(Credential::token(token.text.expose()).expires_at(token.expires))
        })
    }

    /// Prints the token alone.
    fn print(&self, call: &Call) -> Result<ExitCode, Refusal> {
        let token = self.token(call, &call.question()?)?;
        call.print(&format!("{}\n", token.text.expose()))
    }
}

/// The role that flags of both tools describe.
fn role(arn: String, flags: &Flags) -> Role {
    let text = |name| flags.filled(name).map(str::to_owned);
    let (session, external_id) = (text("session-name"), text("external-id"));
    Role { arn, session, external_id, ..Role::default() }
}

/// The token that this call would print, for programs that use the library.
pub fn token(call: &Call) -> Result<Token, Refusal> {
    let flags = |table| Flags::read(&[table], &call.args);
    let wanted = if is_authenticator(call) {
        authenticator::read(call, &flags(authenticator::FLAGS)?)?
    } else {
        get_token::read(&flags(get_token::FLAGS)?)?
    };
    wanted.token(call, &call.question()?)
}
