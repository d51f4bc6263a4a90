//! What a module's refusal means to a person.

use cryptoki::error::{Error, RvError};
use keyward_plugin::Refusal;

/// The failure of a call, with what we were about.
pub(crate) fn explain(doing: &str, error: &Error) -> Refusal {
    match error {
        Error::Pkcs11(code, function) => {
            Refusal::failed(format!("cannot {doing}: `C_{function:?}` answers `{code:?}`"))
        }
        Error::LibraryLoading(why) => Refusal::BadConfig(format!("cannot {doing}: {why}")),
        Error::MissingSymbol(name) => Refusal::BadConfig(format!(
            "cannot {doing}: it has no `{name}`, so it is not a PKCS#11 module"
        )),
        other => Refusal::failed(format!("cannot {doing}: {other}")),
    }
}

/// The code that the module answered with.
pub(crate) fn code(error: &Error) -> Option<RvError> {
    match error {
        Error::Pkcs11(code, _) => Some(*code),
        _ => None,
    }
}

/// Whether the session is gone with its token, so that opening it anew may help.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(
        code(error),
        Some(
            RvError::DeviceRemoved
                | RvError::SessionHandleInvalid
                | RvError::SessionClosed
                | RvError::TokenNotPresent
                | RvError::UserNotLoggedIn
                | RvError::KeyHandleInvalid
                | RvError::ObjectHandleInvalid
        )
    )
}

/// Whether the token lacks the mechanism, in any of the words that modules have for it.
pub(crate) fn is_unsupported(error: &Error) -> bool {
    matches!(
        code(error),
        Some(
            RvError::MechanismInvalid
                | RvError::MechanismParamInvalid
                | RvError::FunctionNotSupported
        )
    )
}
