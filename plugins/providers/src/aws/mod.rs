//! What the families for AWS share: where its credentials come from.
//!
//! `chain.rs` has the order of the sources, which is botocore's: a person gets the identity that the `aws` command
//! would use. This table only says where each source is:
//!
//! | source | file | by |
//! |---|---|---|
//! | environment | `chain.rs` | ourselves |
//! | a profile's role | `role.rs` | `aws-sdk-sts`; the MFA prompt is ours |
//! | web identity | `role.rs` | `aws-sdk-sts` |
//! | SSO, `aws login`, container, instance | `remote.rs` | `aws-config` |
//! | `credential_process` | `process.rs` | Keyward's runner of programs |
//! | keys in files | `chain.rs` | `aws-runtime` reads the files |
//!
//! A source that is not configured is skipped; one that is configured and fails ends the search.

mod chain;
mod client;
mod config;
mod json;
mod keys;
mod process;
mod remote;
mod role;
mod sts;

use std::cell::{OnceCell, RefCell};

use keyward_plugin::{Question, Refusal};
use keyward_protocol::text::inline;

use self::{client::Network, config::Config, sts::now_or_never};
pub(crate) use self::{client::no_region, json::Operation, keys::Keys, role::Role, sts::Endpoint};
use crate::{Call, store::Store};

/// The settings of one call, and what is opened once for all of its sources.
pub(crate) struct Aws<'a> {
    call: &'a Call,
    question: Question,
    config: Config<'a>,
    /// The region that `--region` names.
    region: Option<String>,
    network: OnceCell<Network>,
    store: RefCell<Option<Store>>,
}

impl<'a> Aws<'a> {
    /// Reads the files. `profile` and `region` are what the command line says.
    pub(crate) fn open(
        call: &'a Call,
        question: Question,
        profile: Option<&str>,
        region: Option<&str>,
    ) -> Result<Self, Refusal> {
        let config = Config::load(call, profile)?;
        let region = region.filter(|region| !region.is_empty()).map(str::to_owned);
        // It becomes part of the host that requests go to.
        if let Some(region) = region.as_deref().filter(|region| !can_be_region(region)) {
            return Err(Refusal::BadConfig(format!("`{}` is no AWS region", inline(region))));
        }
        Ok(Self {
            call,
            question,
            config,
            region,
            network: OnceCell::new(),
            store: RefCell::new(None),
        })
    }

    /// The region: the flag, `AWS_REGION`, `AWS_DEFAULT_REGION`, the profile's.
    pub(crate) fn region(&self) -> Option<String> {
        let found = [
            (self.region.clone(), "`--region`"),
            (self.call.var("AWS_REGION"), "`AWS_REGION`"),
            (self.call.var("AWS_DEFAULT_REGION"), "`AWS_DEFAULT_REGION`"),
            (self.config.get("region"), "the profile"),
        ];
        let (region, from) = found.into_iter().find_map(|(region, from)| Some((region?, from)))?;
        self.call.note("region", format!("`{region}`, from {from}"));
        Some(region)
    }

    /// The region of the machine, if it is an EC2 instance.
    pub(crate) fn instance_region(&self) -> Option<String> {
        let region = self.imds_region();
        match &region {
            Some(region) => self.call.note("region", format!("`{region}`, from the instance")),
            None => self.call.note("region", "the instance metadata service does not answer"),
        }
        region
    }

    fn network(&self) -> Result<&Network, Refusal> {
        if self.network.get().is_none() {
            let network = Network::open(&self.config)?;
            _ = self.network.set(network);
        }
        self.network.get().ok_or_else(|| Refusal::failed("the network cannot be used"))
    }

    /// Uses the store of secrets, opened at the first use.
    fn with_store<T>(&self, use_it: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.store.borrow_mut();
        let store = store.get_or_insert_with(|| Store::open(&self.call.surroundings));
        use_it(store)
    }
}

/// Whether a text has the form of a region's name, such as `eu-west-1`.
pub(crate) fn is_region(text: &str) -> bool {
    can_be_region(text) && text.split('-').count() >= 3
}

/// Whether a text has nothing that no name of a region has.
fn can_be_region(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
