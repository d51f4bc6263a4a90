//! `keyward enroll`: gets a certificate from the cluster for a key that stays in its token.

mod plugin;
mod request;

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap_complete::ArgValueCandidates;

use self::plugin::Enroller;
use crate::{
    commands::completions::names,
    duration,
    failure::Failure,
    globals::Globals,
    output,
    server::{self, Server},
};

/// Get a certificate from the cluster for a key that stays in its token
///
/// The user of the context has an external signer, such as `keyward-pkcs11`, whose token contains a
/// key but no certificate yet. The signer creates a certificate request, signed inside the token.
/// Keyward sends it to the cluster with another credential, an administrator approves it, and the
/// certificate is stored in the token. From then on the context works.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # Ask as the user of another context, and wait for the administrator.
  keyward enroll --context prod --bootstrap-context prod-login --name jane --group devs

  # What the administrator does meanwhile: kubectl certificate approve keyward-jane-x2v9q

  # Go on with a request that was made before.
  keyward enroll --context prod --bootstrap-context prod-login --request keyward-jane-x2v9q")]
pub(crate) struct Args {
    /// The kubeconfig user whose credential sends the request
    #[arg(long, add = ArgValueCandidates::new(names::users), value_name = "USER", conflicts_with = "bootstrap_context")]
    bootstrap_user: Option<String>,

    /// The kubeconfig context whose user's credential sends the request; the cluster is still that
    /// of --context
    #[arg(long, add = ArgValueCandidates::new(names::contexts), value_name = "CONTEXT")]
    bootstrap_context: Option<String>,

    /// The user name to request (the certificate's common name)
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "request",
        value_parser = NonEmptyStringValueParser::new()
    )]
    name: Option<String>,

    /// A group to request (an organisation in the certificate); can be repeated
    #[arg(
        long = "group",
        value_name = "NAME",
        conflicts_with = "request",
        value_parser = NonEmptyStringValueParser::new()
    )]
    groups: Vec<String>,

    /// The cluster's signer that should sign it
    #[arg(
        long,
        value_name = "SIGNER",
        default_value = "kubernetes.io/kube-apiserver-client",
        conflicts_with = "request"
    )]
    signer_name: String,

    /// How long the certificate should be valid; the cluster's signer may make it shorter
    #[arg(long, value_name = "DURATION", value_parser = duration::budget, conflicts_with = "request")]
    expiration: Option<Duration>,

    /// How long to wait for the approval
    #[arg(long, value_name = "DURATION", value_parser = duration::budget, default_value = "1h")]
    wait: Duration,

    /// Continue with this request, created by an earlier run, instead of creating one
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "name",
        value_parser = NonEmptyStringValueParser::new()
    )]
    request: Option<String>,

    #[command(flatten)]
    server: server::Args,
}

/// Requests the certificate, waits for it, and has it stored.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let enroller = Enroller::of(&own(globals))?;
    let server = Server::open(&args.server, &bootstrap(args, globals)?)?;
    let name = if let Some(name) = &args.request {
        if !request::is_name(name) {
            let what =
                format!("`{}` is not a valid name of a certificate request", output::inline(name));
            return Err(Failure::usage(what));
        }
        name.clone()
    } else {
        let user = args.name.as_deref().unwrap_or_default();
        let request = enroller.request(user, &args.groups)?;
        request::send(&server, user, &request, args)?
    };
    let shown = output::inline(&name);
    output::tell(&format!(
        "waiting for the approval of certificate request `{shown}`\n\
         an administrator approves it with: kubectl certificate approve {}\n",
        output::quoted(&name)
    ));
    let certificate = request::wait(&server, &name, args.wait, args.request.is_none())?;
    enroller.import(&certificate).map_err(|failure| request::later(failure, &name))?;
    let user = output::inline(&enroller.user);
    output::tell(&format!("the certificate is in the token; user `{user}` is ready to use\n"));
    Ok(())
}

/// The user with the signer: flags for other credentials concern the bootstrap user.
fn own(globals: &Globals) -> Globals {
    let mut own = globals.clone();
    let flags = &mut own.flags;
    (flags.token, flags.username, flags.password) = (None, None, None);
    (flags.client_certificate, flags.client_key) = (None, None);
    (flags.as_user, flags.as_uid) = (None, None);
    flags.as_group.clear();
    own
}

/// The cluster as seen by the user who may request certificates.
fn bootstrap(args: &Args, globals: &Globals) -> Result<Globals, Failure> {
    let mut other = globals.clone();
    if let Some(user) = &args.bootstrap_user {
        other.flags.user = Some(user.clone());
    } else if let Some(context) = &args.bootstrap_context {
        let mut there = globals.clone();
        there.flags.context = vec![context.clone()];
        other.flags.user = Some(there.target()?.user.name);
    } else if ![&globals.flags.token, &globals.flags.password].iter().any(|flag| flag.is_some())
        && globals.flags.client_certificate.is_none()
    {
        return Err(Failure::usage("no user given who may request a certificate")
            .hint("name another user of the kubeconfig with `--bootstrap-user`, or its context with `--bootstrap-context`"));
    }
    Ok(other)
}
