use clap::{Args, builder::NonEmptyStringValueParser};
use keyward_plugin::Refusal;

use super::{Place, print};
use crate::{open::Open, request, sign::Failure, signer::choose};

/// `keyward-pkcs11 csr`
#[derive(Args)]
pub(super) struct Csr {
    #[command(flatten)]
    place: Place,
    /// The user name in the cluster (the certificate's common name)
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    user: String,
    /// A group in the cluster (an organisation in the certificate); may be given again
    #[arg(long = "group", value_parser = NonEmptyStringValueParser::new())]
    groups: Vec<String>,
}

impl Csr {
    pub(super) fn run(&self) -> Result<(), Refusal> {
        let mut wrong_pins = Vec::new();
        let mut open = Open::new(self.place.target()?, false)?;
        open.login(&mut wrong_pins)?;
        let contents = open.contents()?;
        let identity = choose(&open, &contents)?;
        let uri = identity.uri(&open.token);
        let unusable = |what: &str| Refusal::BadConfig(format!("the key `{uri}` {what}"));
        let key = identity.private.ok_or_else(|| unusable("cannot be seen"))?;
        let public = identity.public.ok_or_else(|| {
            unusable("has no public half in the token, which the request must contain")
        })?;
        let pem = request::build(&self.user, &self.groups, public, |options, digest| {
            open.sign(key, options, digest, &mut wrong_pins).map_err(Failure::refusal)
        })?;
        print(&pem)
    }
}
