//! Explains the errors of modules.

use cryptoki::error::{Error, RvError};
use keyward_plugin::Refusal;

/// The error of a call, with what it was for.
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

/// The return code of the module.
pub(crate) fn code(error: &Error) -> Option<RvError> {
    match error {
        Error::Pkcs11(code, _) => Some(*code),
        _ => None,
    }
}

/// Whether the session is gone with its token, so that opening a new one may help.
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

/// Whether the token lacks the mechanism, by any of the codes that modules use for that.
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
