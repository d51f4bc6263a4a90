use std::fmt::Write as _;

use clap::Args;
use keyward_plugin::Refusal;
use keyward_process::clock::{Clock as _, SystemClock};

use super::{Place, print};
use crate::{
    contents::Contents,
    identity::{Identity, chain},
    module::{Module, Token},
    open::Open,
    target::Target,
    uri::Uri,
};

/// `keyward-pkcs11 list`
#[derive(Args)]
pub(super) struct List {
    #[command(flatten)]
    place: Place,
    /// Log in, to see the private keys too
    #[arg(long)]
    login: bool,
}

impl List {
    pub(super) fn run(&self) -> Result<(), Refusal> {
        let target = self.place.target()?;
        let tokens = {
            let module = Module::open(&target.module)?;
            let _held = module.lock.hold()?;
            module.tokens()?
        };
        let mut out = format!("module {}\n", target.module.display());
        if tokens.is_empty() {
            out.push_str("  no token\n");
        }
        for token in &tokens {
            let uri = Uri { slot: Some(token.slot.id()), ..target.uri.clone() };
            // Those that are not meant are left out by `Open`, which says so as an error.
            let one = Target { uri, ..target.clone() };
            let Ok(mut open) = Open::new(one, false) else { continue };
            if self.login {
                open.login(&mut Vec::new())?;
            }
            write_token(&mut out, token, &open.contents()?, open.needs_login());
        }
        print(&out)
    }
}

fn write_token(out: &mut String, token: &Token, contents: &Contents, hides: bool) {
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line(format!("token `{}` in slot {}{}", token.label, token.slot, pin_notes(token)));
    line(format!("  {}", token.uri()));
    let (identities, now) = (Identity::all(contents), SystemClock.now());
    for identity in &identities {
        let kind = identity.public.map(|public| public.kind);
        let kind = kind.or(identity.private.and_then(|key| key.kind));
        let kind = kind.map_or_else(|| "of unknown kind".to_owned(), |kind| kind.to_string());
        let notes = match identity.private {
            Some(key) if key.always_authenticate => ", needs the PIN for each signature",
            Some(key) if key.extractable => ", extractable",
            _ => "",
        };
        line(format!("  key {kind}{notes}"));
        line(format!("    {}", identity.uri(token)));
        for (_, certificate) in &identity.certificates {
            let ended = if certificate.is_valid(now) { "" } else { " (not valid now)" };
            line(format!(
                "    certificate {} until {}{ended}",
                certificate.subject_text, certificate.until
            ));
            for above in chain(certificate, contents, now) {
                line(format!("      issued by {}", above.subject_text));
            }
        }
    }
    let mine =
        |wanted: &_| identities.iter().flat_map(|i| &i.certificates).any(|(_, c)| c == wanted);
    for (_, certificate) in &contents.certificates {
        if !mine(&certificate) {
            line(format!("  certificate without a key: {}", certificate.subject_text));
        }
    }
    if hides {
        line("  (private keys show after a login: `--login`)".to_owned());
    }
}

fn pin_notes(token: &Token) -> &'static str {
    match token.pin {
        state if state.locked => ", PIN locked",
        state if state.final_try => ", ONE PIN TRY LEFT",
        state if state.last_was_wrong => ", the last PIN was wrong",
        state if state.keypad => ", PIN typed on the reader",
        _ => "",
    }
}
