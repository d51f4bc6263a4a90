//! An open token: a session, a login, and signatures with one of its keys.

use cryptoki::{
    error::RvError,
    session::{Session, UserType},
    types::AuthPin,
};
use keyward_plugin::{Options, Refusal, Secret};

use crate::{
    contents::{Contents, Private},
    fault::{code, explain},
    module::{Module, Token},
    pin::{self, PinSource},
    sign::{self, Failure, Step},
    target::Target,
};

/// An open session with a token. Do not call a method while holding the module's lock: each takes it for
/// as long as it talks to the module, and never while it prompts a person.
pub(crate) struct Open {
    /// What the session was opened for.
    pub(crate) target: Target,
    pub(crate) token: Token,
    session: Session,
    module: Module,
    logged_in: bool,
    /// The process ends after one request and never prompts after the login, so it holds the module's lock from
    /// the login on. A TPM without a resource manager has room for three logins.
    pub(crate) one_request: bool,
    /// A typed PIN, kept for the next signature of a key that needs it each time.
    typed: Option<Secret>,
}

/// A PIN and where it comes from. No value if it is typed on the reader.
struct Pin {
    value: Option<Secret>,
    source: PinSource,
}

impl Open {
    /// Loads the module, finds the token, opens a session.
    pub(crate) fn new(target: Target, writing: bool) -> Result<Self, Refusal> {
        let module = Module::open(&target.module)?;
        let held = module.lock.hold()?;
        let token = module.choose(&target)?;
        let session = module.session(&token, writing)?;
        drop(held);
        Ok(Self {
            target,
            token,
            session,
            module,
            logged_in: false,
            one_request: false,
            typed: None,
        })
    }

    /// What is visible in the token.
    pub(crate) fn contents(&self) -> Result<Contents, Refusal> {
        self.with(Contents::read)
    }

    /// Uses the session while holding the module's lock.
    pub(crate) fn with<T>(
        &self,
        act: impl FnOnce(&Session) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let _held = self.module.lock.hold()?;
        act(&self.session)
    }

    /// Whether the session still exists. A card that is taken out, or a daemon that restarts, ends it.
    ///
    /// The session's state does not count: some modules ask the card, which another process may have logged out,
    /// and log in again by themselves at the next signature. One that does not fails it, and the token is opened
    /// again then.
    pub(crate) fn is_alive(&self) -> bool {
        let Ok(_held) = self.module.lock.hold() else { return false };
        self.session.get_session_info().is_ok()
    }

    /// Whether a login would show keys that are hidden now.
    pub(crate) fn needs_login(&self) -> bool {
        self.token.pin.required && !self.logged_in
    }

    /// Logs in, unless that is done or not needed. PINs in `wrong_pins` are not tried again.
    pub(crate) fn login(&mut self, wrong_pins: &mut Vec<Secret>) -> Result<(), Refusal> {
        if !self.needs_login() {
            return Ok(());
        }
        let pin = self.obtain_pin(wrong_pins)?;
        self.try_pin("log in", UserType::User, &pin, wrong_pins)?;
        self.logged_in = true;
        if pin.source == PinSource::Typed {
            self.typed = pin.value;
        }
        Ok(())
    }

    /// Gets a PIN for a key that needs one for each signature, so that nobody is prompted while a server
    /// waits.
    pub(crate) fn prepare(&mut self, key: &Private, wrong_pins: &[Secret]) -> Result<(), Refusal> {
        if key.always_authenticate
            && self.typed.is_none()
            && self.target.stored.is_none()
            && !self.token.pin.keypad
        {
            self.typed = self.obtain_pin(wrong_pins)?.value;
        }
        Ok(())
    }

    /// Signs. The login must have happened.
    pub(crate) fn sign(
        &mut self,
        key: &Private,
        options: Options,
        digest: &[u8],
        wrong_pins: &mut Vec<Secret>,
    ) -> Result<Vec<u8>, Failure> {
        let kind = key.kind.ok_or_else(|| {
            Refusal::Unsupported("the key is of a kind that cannot sign here".to_owned())
        })?;
        if !key.always_authenticate {
            let _held = self.module.lock.hold()?;
            // Only a key that wants it for each signature needs it after the login.
            self.typed = None;
            return sign::sign(kind, options, digest, |step| {
                self.session.sign(&step.mechanism, key.handle, &step.data).map_err(Failure::Module)
            });
        }
        let pin = match self.typed.take() {
            Some(pin) => Pin { value: Some(pin), source: PinSource::Typed },
            None => self.obtain_pin(wrong_pins)?,
        };
        let outcome = sign::sign(kind, options, digest, |step| {
            self.sign_with_login(key, step, &pin, wrong_pins)
        });
        if self.target.reuse && outcome.is_ok() && pin.source == PinSource::Typed {
            self.typed = pin.value;
        }
        outcome
    }

    fn sign_with_login(
        &self,
        key: &Private,
        step: &Step<'_>,
        pin: &Pin,
        wrong_pins: &mut Vec<Secret>,
    ) -> Result<Vec<u8>, Failure> {
        {
            let _held = self.module.lock.hold()?;
            self.session.sign_init(&step.mechanism, key.handle).map_err(Failure::Module)?;
        }
        let doing = "log in for a signature";
        self.try_pin(doing, UserType::ContextSpecific, pin, wrong_pins)?;
        let _held = self.module.lock.hold()?;
        Ok(crate::raw::finish(&self.module.path, &self.session, &step.data)?)
    }

    /// Finds a PIN that may be tried, and prompts for one if needed.
    fn obtain_pin(&self, wrong_pins: &[Secret]) -> Result<Pin, Refusal> {
        let state = {
            let _held = self.module.lock.hold()?;
            self.module.token(self.token.slot)?.pin
        };
        if state.keypad {
            return Ok(Pin { value: None, source: PinSource::Typed });
        }
        let mut why = None;
        if let Some(stored) = &self.target.stored {
            let pin = stored.read()?;
            if wrong_pins.contains(&pin) {
                return Err(Refusal::WrongPin(format!(
                    "the PIN {} was wrong for token `{}` and is not tried again",
                    stored.place(),
                    self.token.label
                )));
            }
            match state.permit(PinSource::Stored, &self.token.label) {
                Ok(()) => return Ok(Pin { value: Some(pin), source: PinSource::Stored }),
                Err(refusal) => {
                    // The hint tells the person to type the PIN, which is what happens now.
                    let text = refusal.to_string();
                    why = text.split("\n\n").next().map(str::to_owned);
                }
            }
        }
        state.permit(PinSource::Typed, &self.token.label)?;
        let pin = pin::ask(&self.token, why.as_deref())?;
        if wrong_pins.contains(&pin) {
            return Err(Refusal::NotAllowed(format!(
                "this PIN was wrong for token `{}` before and is not tried again",
                self.token.label
            )));
        }
        Ok(Pin { value: Some(pin), source: PinSource::Typed })
    }

    /// Tries a PIN once, for what `doing` says.
    fn try_pin(
        &self,
        doing: &str,
        user: UserType,
        pin: &Pin,
        wrong_pins: &mut Vec<Secret>,
    ) -> Result<(), Refusal> {
        let held = self.module.lock.hold()?;
        // Another process may have used up a try since we looked.
        let state = self.module.token(self.token.slot)?.pin;
        state.permit(pin.source, &self.token.label)?;
        let value = pin.value.as_ref().map(|pin| AuthPin::from(pin.expose().to_owned()));
        let error = match self.session.login(user, value.as_ref()) {
            Ok(()) => {
                if self.one_request {
                    held.keep();
                }
                return Ok(());
            }
            Err(error) if code(&error) == Some(RvError::UserAlreadyLoggedIn) => return Ok(()),
            Err(error) => error,
        };
        let label = &self.token.label;
        Err(match code(&error) {
            Some(RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange) => {
                wrong_pins.extend(pin.value.clone());
                match (&self.target.stored, pin.source) {
                    (Some(stored), PinSource::Stored) => Refusal::WrongPin(format!(
                        "the PIN {} is wrong for token `{label}`\n\nhint: it is not tried again; \
                         correct it, then log in once by typing it at a terminal",
                        stored.place()
                    )),
                    _ => Refusal::NotAllowed(format!("this is not the PIN of token `{label}`")),
                }
            }
            Some(RvError::PinLocked) => {
                Refusal::NotAllowed(format!("the PIN of token `{label}` is locked"))
            }
            Some(RvError::PinExpired) => Refusal::NotAllowed(format!(
                "the PIN of token `{label}` has expired and must be changed first"
            )),
            Some(RvError::UserPinNotInitialized) => Refusal::BadConfig(format!(
                "token `{label}` has no user PIN yet\n\nhint: set one with the tool that came with it"
            )),
            Some(RvError::FunctionCanceled) => Refusal::Interrupted,
            _ => explain(doing, &error),
        })
    }
}
