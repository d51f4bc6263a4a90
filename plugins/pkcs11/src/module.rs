//! A loaded module and the tokens it shows.

use std::path::{Path, PathBuf};

use cryptoki::{
    context::{CInitializeArgs, CInitializeFlags, Pkcs11},
    error::RvError,
    session::Session,
    slot::Slot,
};
use keyward_plugin::Refusal;
use keyward_process::trust;

use crate::{
    fault::{code, explain},
    lock::Lock,
    pin::PinState,
    target::Target,
    uri::{Uri, lines},
};

/// A PKCS#11 library, loaded and initialised.
pub(crate) struct Module {
    context: Pkcs11,
    /// Where the module was loaded from.
    pub(crate) path: PathBuf,
    /// Taken for every use of the module.
    pub(crate) lock: Lock,
}

/// A token's description of itself.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) slot: Slot,
    pub(crate) label: String,
    pub(crate) manufacturer: String,
    pub(crate) model: String,
    pub(crate) serial: String,
    /// The reader's description and manufacturer.
    reader: [String; 2],
    pub(crate) pin: PinState,
}

/// The path to load a module by: without links, and with nothing on it that another user could change,
/// so that what is loaded is what was checked.
///
/// Not by a descriptor: a module finds libraries beside itself by its path (`$ORIGIN`), and p11-kit and
/// `OpenSC` ask the loader where they are. A bare name is the system's own search, which root set up.
fn checked(path: &Path) -> Result<PathBuf, Refusal> {
    if path.is_relative() && path.components().count() == 1 {
        return Ok(path.to_owned());
    }
    let refused = |why: String| {
        Refusal::BadConfig(format!("the module `{}` is not loaded: {why}", path.display()))
    };
    let checked = trust::library(path).map_err(|e| refused(e.to_string()))?;
    let fault = checked.faults().next().map(ToString::to_string);
    fault.map_or(Ok(checked.resolved), |fault| Err(refused(fault)))
}

impl Module {
    /// Loads the library, holding the module's lock.
    pub(crate) fn open(path: &Path) -> Result<Self, Refusal> {
        let resolved = checked(path)?;
        let lock = Lock::of(path)?;
        let held = lock.hold()?;
        let doing = format!("load the module `{}`", path.display());
        let context = Pkcs11::new(&resolved).map_err(|e| explain(&doing, &e))?;
        let arguments = CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK);
        match context.initialize(arguments) {
            Ok(()) => {}
            Err(e) if code(&e) == Some(RvError::CryptokiAlreadyInitialized) => {}
            Err(e) => return Err(explain(&doing, &e)),
        }
        drop(held);
        Ok(Self { context, path: path.to_owned(), lock })
    }

    /// The initialised tokens.
    pub(crate) fn tokens(&self) -> Result<Vec<Token>, Refusal> {
        let slots = self
            .context
            .get_slots_with_initialized_token()
            .map_err(|e| explain("list the tokens", &e))?;
        slots.into_iter().map(|slot| self.token(slot)).collect()
    }

    /// What the token in this slot reports now.
    pub(crate) fn token(&self, slot: Slot) -> Result<Token, Refusal> {
        let fault = |e| explain("look at the token", &e);
        let info = self.context.get_token_info(slot).map_err(fault)?;
        let reader = self.context.get_slot_info(slot).map_err(fault)?;
        // The fields are padded with blanks, by some modules with zeros.
        let text = |field: &str| field.trim_end_matches(['\0', ' ']).to_owned();
        Ok(Token {
            slot,
            label: text(info.label()),
            manufacturer: text(info.manufacturer_id()),
            model: text(info.model()),
            serial: text(info.serial_number()),
            reader: [text(reader.slot_description()), text(reader.manufacturer_id())],
            pin: PinState {
                required: info.login_required(),
                keypad: info.protected_authentication_path(),
                last_was_wrong: info.user_pin_count_low(),
                final_try: info.user_pin_final_try(),
                locked: info.user_pin_locked(),
            },
        })
    }

    /// The one token that the target matches.
    pub(crate) fn choose(&self, target: &Target) -> Result<Token, Refusal> {
        let all = self.tokens()?;
        let mut matching: Vec<&Token> = match target.slot {
            None => all.iter().collect(),
            // SoftHSM gives its slots new numbers, so that a small number can only be an index.
            Some(number) => match all.iter().find(|token| token.slot.id() == number) {
                Some(token) => vec![token],
                None => usize::try_from(number)
                    .ok()
                    .and_then(|index| all.get(index))
                    .into_iter()
                    .collect(),
            },
        };
        let library = self.library(&target.uri)?;
        matching.retain(|token| library && token.matches(&target.uri));
        if matching.len() > 1 {
            // Lists of trusted certificates, which a system's proxy shows as tokens, have no keys.
            let with_keys: Vec<_> =
                matching.iter().copied().filter(|token| token.pin.required).collect();
            if !with_keys.is_empty() {
                matching = with_keys;
            }
        }
        match matching[..] {
            [token] => Ok(token.clone()),
            [] => Err(Refusal::BadConfig(format!(
                "no token of the module `{}` matches\n\n{}",
                self.path.display(),
                listing("hint: there are", &all.iter().collect::<Vec<_>>())
            ))),
            _ => Err(Refusal::BadConfig(format!(
                "several tokens match\n\n{}",
                listing("hint: extend the URI to match one of", &matching)
            ))),
        }
    }

    /// Whether the URI matches this module.
    fn library(&self, uri: &Uri) -> Result<bool, Refusal> {
        let wanted = [&uri.library_description, &uri.library_manufacturer, &uri.library_version];
        if wanted.iter().all(|wanted| wanted.is_none()) {
            return Ok(true);
        }
        let info =
            self.context.get_library_info().map_err(|e| explain("look at the module", &e))?;
        let version = info.library_version();
        let (major, minor) = (version.major(), version.minor());
        let versions = [format!("{major}.{minor}"), major.to_string()];
        Ok(fits(wanted[0].as_ref(), info.library_description().trim_end_matches(['\0', ' ']))
            && fits(wanted[1].as_ref(), info.manufacturer_id().trim_end_matches(['\0', ' ']))
            && versions.iter().any(|version| fits(wanted[2].as_ref(), version)))
    }

    /// Opens a session: to read and sign, or also to write.
    pub(crate) fn session(&self, token: &Token, writing: bool) -> Result<Session, Refusal> {
        let session = if writing {
            self.context.open_rw_session(token.slot)
        } else {
            self.context.open_ro_session(token.slot)
        };
        session.map_err(|e| explain(&format!("open token `{}`", token.label), &e))
    }
}

impl Drop for Module {
    /// Finalizes the module, which frees what a card or a TPM holds for us.
    fn drop(&mut self) {
        let _held = self.lock.hold();
        let _ = self.context.clone().finalize();
    }
}

impl Token {
    /// The URI of the token.
    pub(crate) fn uri(&self) -> Uri {
        let text = |field: &String| Some(field.clone()).filter(|field| !field.is_empty());
        Uri {
            token: text(&self.label),
            manufacturer: text(&self.manufacturer),
            model: text(&self.model),
            serial: text(&self.serial),
            ..Uri::default()
        }
    }

    fn matches(&self, uri: &Uri) -> bool {
        fits(uri.token.as_ref(), &self.label)
            && fits(uri.manufacturer.as_ref(), &self.manufacturer)
            && fits(uri.model.as_ref(), &self.model)
            && fits(uri.serial.as_ref(), &self.serial)
            && fits(uri.slot_description.as_ref(), &self.reader[0])
            && fits(uri.slot_manufacturer.as_ref(), &self.reader[1])
            && uri.slot.is_none_or(|slot| slot == self.slot.id())
    }
}

fn fits(wanted: Option<&String>, field: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == field)
}

fn listing(title: &str, tokens: &[&Token]) -> String {
    if tokens.is_empty() {
        return "hint: it shows no token at all; is it plugged in and initialised?".to_owned();
    }
    format!("{title}{}", lines(tokens.iter().map(|token| token.uri())))
}
