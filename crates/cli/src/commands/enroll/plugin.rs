//! The signer's part: it creates the request, and it stores the certificate.
//!
//! The signer runs with the command `csr` or `import`. Its configuration is in the environment,
//! like a request otherwise: it may contain a PIN, which must not be an argument.

use std::ffi::OsString;

use keyward_process::runner::{self, Cancel, Invocation, Status, Stderr, Stdin};
use keyward_protocol::signer::{REQUEST_VARIABLE, Request};
use zeroize::Zeroizing;

use crate::{
    commands::plugin_test::environment,
    failure::{Code, Failure},
    globals::Globals,
    output::inline,
};

/// The first line of a certificate request in PEM.
const BEGINNING: &str = "-----BEGIN CERTIFICATE REQUEST-----";

/// A signer that can be enrolled.
pub(super) struct Enroller {
    /// Everything but arguments and stdin.
    invocation: Invocation,
    command: String,
    /// The kubeconfig user of the signer.
    pub(super) user: String,
}

impl Enroller {
    /// The signer of the user that the flags select, found by the same rules as for signing.
    pub(super) fn of(globals: &Globals) -> Result<Self, Failure> {
        let plan = globals.plan(globals.target()?)?;
        let user = plan.target().user.name.clone();
        let plugin = plan.signer().ok_or_else(|| {
            Failure::usage(format!("user `{}` has no external signer", inline(&user))).hint(
                "name a user whose auth-provider is `externalSigner`, with `--context` or `--user`",
            )
        })?;
        let program = plan.rules().admit(plugin.command(), &globals.surroundings)?;
        let request = Request::Certificate(plugin.configuration().clone()).to_json();
        let mut env = environment(globals);
        env.retain(|(name, _)| name != REQUEST_VARIABLE);
        env.push((REQUEST_VARIABLE.into(), request.expose().into()));
        let attended = plugin.preview.attended();
        let mut invocation = Invocation::new(program.path);
        invocation.file_id = Some(program.file_id);
        invocation.name = plugin.command().into();
        invocation.env = env;
        invocation.stderr = if attended { Stderr::Shown } else { Stderr::Kept };
        invocation.attended = attended;
        if let Some(run) = &plugin.preview.run {
            invocation.budget = run.budget;
        }
        Ok(Self { invocation, command: plugin.command().to_owned(), user })
    }

    /// A certificate request in PEM, signed by the key.
    pub(super) fn request(&self, user: &str, groups: &[String]) -> Result<String, Failure> {
        let mut args: Vec<OsString> = vec!["--user".into(), user.into()];
        args.extend(groups.iter().flat_map(|group| ["--group".into(), group.into()]));
        let output = self.run("csr", args, Stdin::Closed)?;
        match String::from_utf8(output.to_vec()) {
            Ok(pem) if pem.trim_start().starts_with(BEGINNING) => Ok(pem),
            _ => {
                let what = format!("signer `{}` printed no certificate request", self.name());
                Err(self.incapable(Failure::failed(what)))
            }
        }
    }

    /// Stores the certificate next to the key.
    pub(super) fn import(&self, certificate: &str) -> Result<(), Failure> {
        let stdin = Stdin::Request(Zeroizing::new(certificate.as_bytes().to_vec()));
        self.run("import", vec!["-".into()], stdin).map(drop)
    }

    fn run(
        &self,
        verb: &str,
        mut args: Vec<OsString>,
        stdin: Stdin,
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        args.insert(0, verb.into());
        let invocation = Invocation { args, stdin, ..self.invocation.clone() };
        let name = self.name();
        let output = runner::run(&invocation, &Cancel::default())
            .map_err(Failure::of(format!("signer `{name}` did not finish")))?;
        let code = match output.status {
            Status::Code(0) => return Ok(output.stdout),
            Status::Code(3) => Code::NeedsTerminal,
            Status::Code(4 | 5) => Code::NotAllowed,
            _ => Code::Failed,
        };
        let failure = Failure::new(code, format!("signer `{name}` failed to run `{verb}`"));
        Err(self.incapable(failure.quoting(&output.stderr)))
    }

    fn incapable(&self, failure: Failure) -> Failure {
        failure.hint(format!(
            "enrolling needs a signer with the commands `csr` and `import`, such as \
             `keyward-pkcs11`; `{}` must be one, and its token must hold a key",
            self.name()
        ))
    }

    fn name(&self) -> String {
        inline(&self.command)
    }
}
