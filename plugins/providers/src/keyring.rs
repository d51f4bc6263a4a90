//! Secrets that survive a reboot: in the desktop's keyring (the Secret Service), for who asks for it.
//!
//! A keyring may be missing or locked, and a login must not fail for that: the caller tells the person.

use keyring::{Entry, Error};
use keyward_protocol::Secret;

use crate::store::Key;

/// Under this name a person finds the entries in the desktop's own tool.
const SERVICE: &str = "keyward";

/// The secret, if the keyring has it.
pub(crate) fn get(key: &Key) -> Result<Option<Secret>, String> {
    match entry(key)?.get_secret() {
        Ok(bytes) => Ok(Some(Secret::from_bytes(bytes))),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(describe(&error)),
    }
}

/// Saves a secret, in place of an older one.
pub(crate) fn put(key: &Key, secret: &Secret) -> Result<(), String> {
    entry(key)?.set_secret(secret.expose_bytes()).map_err(|error| describe(&error))
}

/// Deletes a secret; one that does not exist is no error.
pub(crate) fn forget(key: &Key) -> Result<(), String> {
    match entry(key)?.delete_credential() {
        Ok(()) | Err(Error::NoEntry) => Ok(()),
        Err(error) => Err(describe(&error)),
    }
}

fn entry(key: &Key) -> Result<Entry, String> {
    if let Err(error) = Entry::store_status() {
        return Err(format!("no keyring can be reached: {}", describe(error)));
    }
    Entry::new(SERVICE, &key.name()).map_err(|error| describe(&error))
}

/// An error without what it carries: `BadEncoding` has the secret.
fn describe(error: &Error) -> String {
    match error {
        Error::PlatformFailure(cause) | Error::NoStorageAccess(cause) => {
            keyward_protocol::text::inline(&cause.to_string())
        }
        Error::NoDefaultStore => "no keyring is running".to_owned(),
        _ => "the keyring gave an answer that cannot be used".to_owned(),
    }
}
