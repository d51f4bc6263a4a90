//! An open token: a session, a login, and signatures with one of its keys.

use cryptoki::{
    error::{Error, RvError},
    session::{Session, UserType},
    types::AuthPin,
};
use keyward_plugin::{Options, Refusal, Secret};

use crate::{
    contents::{Contents, Private},
    fault::{code, explain},
    module::{Module, Token},
    pin::{self, Way},
    sign::{self, Failure, Step},
    target::Target,
};

/// A token with a session in it. No method is to be called while the module's lock is held: each
/// takes it for as long as it talks to the module, and never while a person is asked.
pub(crate) struct Open {
    /// What this was opened for.
    pub(crate) target: Target,
    /// The token.
    pub(crate) token: Token,
    session: Session,
    module: Module,
    logged_in: bool,
    /// For one request: from the login on, the module is ours to the end. A TPM without a resource
    /// manager has room for three who are logged in.
    brief: bool,
    /// A typed PIN, held for the next signature of a key that wants it again.
    typed: Option<Secret>,
}

/// A PIN and how we came to it; `None` when it is typed on the reader.
struct Offer {
    pin: Option<Secret>,
    way: Way,
}

impl Open {
    /// Loads the module, finds the token, opens a session.
    pub(crate) fn new(target: Target, writing: bool) -> Result<Self, Refusal> {
        let module = Module::open(&target.module)?;
        let held = module.lock.hold()?;
        let token = module.choose(&target)?;
        let session = module.session(&token, writing)?;
        drop(held);
        Ok(Self { target, token, session, module, logged_in: false, brief: false, typed: None })
    }

    /// For a process that ends after one request and never prompts after the login.
    pub(crate) fn briefly(self) -> Self {
        Self { brief: true, ..self }
    }

    /// What can be seen in the token.
    pub(crate) fn contents(&self) -> Result<Contents, Refusal> {
        self.with(Contents::read)
    }

    /// Something to do in the session while it is ours.
    pub(crate) fn with<T>(
        &self,
        act: impl FnOnce(&Session) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let _held = self.module.lock.hold()?;
        act(&self.session)
    }

    /// Whether keys that are hidden now would be seen after a login.
    pub(crate) fn hides(&self) -> bool {
        self.token.pin.required && !self.logged_in
    }

    /// Logs in, unless that was done or is not needed. `burnt` holds PINs that were wrong.
    pub(crate) fn login(&mut self, burnt: &mut Vec<Secret>) -> Result<(), Refusal> {
        if !self.hides() {
            return Ok(());
        }
        let offer = self.offer(burnt)?;
        self.try_pin(UserType::User, &offer, burnt)?.map_err(|e| explain("log in", &e))?;
        self.logged_in = true;
        if offer.way == Way::Typed {
            self.typed = offer.pin;
        }
        Ok(())
    }

    /// Gets a PIN for a key that wants one for each signature, so that none has to be asked for
    /// while a server waits.
    pub(crate) fn prepare(&mut self, key: &Private, burnt: &[Secret]) -> Result<(), Refusal> {
        if key.always && self.typed.is_none() && self.target.stored.is_none() && !self.token.pin.pad
        {
            self.typed = self.offer(burnt)?.pin;
        }
        Ok(())
    }

    /// Signs. The login must have happened.
    pub(crate) fn sign(
        &mut self,
        key: &Private,
        options: Options,
        digest: &[u8],
        burnt: &mut Vec<Secret>,
    ) -> Result<Vec<u8>, Failure> {
        let kind = key.kind.ok_or_else(|| {
            Refusal::Unsupported("the key is of a kind that cannot sign here".to_owned())
        })?;
        if !key.always {
            let _held = self.module.lock.hold()?;
            self.typed = None;
            return sign::sign(kind, options, digest, |step| {
                self.session.sign(&step.mechanism, key.handle, &step.data).map_err(Failure::Module)
            });
        }
        let offer = match self.typed.take() {
            Some(pin) => Offer { pin: Some(pin), way: Way::Typed },
            None => self.offer(burnt)?,
        };
        let outcome = sign::sign(kind, options, digest, |step| {
            self.sign_with_login(key, step, &offer, burnt)
        });
        if self.target.reuse && outcome.is_ok() && offer.way == Way::Typed {
            self.typed = offer.pin;
        }
        outcome
    }

    fn sign_with_login(
        &self,
        key: &Private,
        step: &Step<'_>,
        offer: &Offer,
        burnt: &mut Vec<Secret>,
    ) -> Result<Vec<u8>, Failure> {
        {
            let _held = self.module.lock.hold()?;
            self.session.sign_init(&step.mechanism, key.handle).map_err(Failure::Module)?;
        }
        match self.try_pin(UserType::ContextSpecific, offer, burnt)? {
            Ok(()) => {}
            Err(error) => return Err(Failure::Final(explain("log in for a signature", &error))),
        }
        let _held = self.module.lock.hold()?;
        Ok(crate::raw::finish(self.module.path(), &self.session, &step.data)?)
    }

    /// Finds a PIN that may be tried, asking the person if need be.
    fn offer(&self, burnt: &[Secret]) -> Result<Offer, Refusal> {
        let state = {
            let _held = self.module.lock.hold()?;
            self.module.token(self.token.slot)?.pin
        };
        if state.pad {
            return Ok(Offer { pin: None, way: Way::Typed });
        }
        let mut why = None;
        if let Some(stored) = &self.target.stored {
            let pin = stored.read()?;
            if burnt.contains(&pin) {
                return Err(Refusal::WrongPin(format!(
                    "the PIN {} was wrong for token `{}` and is not tried again",
                    stored.place(),
                    self.token.label
                )));
            }
            match state.permit(Way::Stored, &self.token.label) {
                Ok(()) => return Ok(Offer { pin: Some(pin), way: Way::Stored }),
                Err(refusal) => {
                    // The hint is about what the person is asked to do right now.
                    let text = refusal.to_string();
                    why = text.split("\n\n").next().map(str::to_owned);
                }
            }
        }
        state.permit(Way::Typed, &self.token.label)?;
        let pin = pin::ask(&self.token, why.as_deref())?;
        if burnt.contains(&pin) {
            return Err(Refusal::NotAllowed(format!(
                "this PIN was wrong for token `{}` before and is not tried again",
                self.token.label
            )));
        }
        Ok(Offer { pin: Some(pin), way: Way::Typed })
    }

    /// One try. The inner error is the module's, when it is not about the PIN.
    fn try_pin(
        &self,
        user: UserType,
        offer: &Offer,
        burnt: &mut Vec<Secret>,
    ) -> Result<Result<(), Error>, Refusal> {
        let held = self.module.lock.hold()?;
        // Another process may have used up a try since we looked.
        let state = self.module.token(self.token.slot)?.pin;
        state.permit(offer.way, &self.token.label)?;
        let pin = offer.pin.as_ref().map(|pin| AuthPin::from(pin.expose().to_owned()));
        let error = match self.session.login(user, pin.as_ref()) {
            Ok(()) => {
                if self.brief {
                    held.keep();
                }
                return Ok(Ok(()));
            }
            Err(error) if code(&error) == Some(RvError::UserAlreadyLoggedIn) => return Ok(Ok(())),
            Err(error) => error,
        };
        let label = &self.token.label;
        match code(&error) {
            Some(RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange) => {
                burnt.extend(offer.pin.clone());
                Err(match (&self.target.stored, offer.way) {
                    (Some(stored), Way::Stored) => Refusal::WrongPin(format!(
                        "the PIN {} is wrong for token `{label}`\n\nhint: it is not tried again; \
                         correct it, then log in once by typing it at a terminal",
                        stored.place()
                    )),
                    _ => Refusal::NotAllowed(format!("this is not the PIN of token `{label}`")),
                })
            }
            Some(RvError::PinLocked) => {
                Err(Refusal::NotAllowed(format!("the PIN of token `{label}` is locked")))
            }
            Some(RvError::PinExpired) => Err(Refusal::NotAllowed(format!(
                "the PIN of token `{label}` has expired and must be changed first"
            ))),
            Some(RvError::UserPinNotInitialized) => Err(Refusal::BadConfig(format!(
                "token `{label}` has no user PIN yet\n\nhint: set one with the tool that came with it"
            ))),
            Some(RvError::FunctionCanceled) => Err(Refusal::Interrupted),
            _ => Ok(Err(error)),
        }
    }
}
