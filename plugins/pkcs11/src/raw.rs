//! The one call that `cryptoki` cannot make: `C_Sign` after a `C_SignInit` of our own.
//!
//! A key with `CKA_ALWAYS_AUTHENTICATE` wants a login between the two, and `cryptoki`'s `sign` makes
//! both at once. Beginning and login go through `cryptoki`; only the last step is made here, on the
//! function list of the same library. This is the only file with `unsafe` in it.
#![expect(unsafe_code, reason = "a C function is called by its pointer")]

use std::{path::Path, ptr};

use cryptoki::session::Session;
use cryptoki_sys::{CK_FUNCTION_LIST, CK_RV, CK_ULONG, CKR_OK};
use keyward_plugin::Refusal;

/// Longer than any signature: RSA with 16,384 bits.
const LONGEST: usize = 2048;

/// Ends the signature that was begun in this session.
pub(crate) fn finish(module: &Path, session: &Session, data: &[u8]) -> Result<Vec<u8>, Refusal> {
    let failed = |what: String| Refusal::failed(format!("cannot sign: {what}"));
    // SAFETY: loading runs the library's initialisers. It is loaded already, by the same path, so
    // the system only counts one more user of it, and we trust it as much as we did then.
    let library = unsafe { cryptoki_sys::Pkcs11::new(module) }
        .map_err(|e| failed(format!("the module does not load again: {e}")))?;
    let mut list: *mut CK_FUNCTION_LIST = ptr::null_mut();
    // SAFETY: the standard says what this function takes: a place for one pointer, which `list` is.
    // That the library has the function was seen when it was first loaded.
    let answer = unsafe { library.C_GetFunctionList(&raw mut list) };
    check(answer, "C_GetFunctionList").map_err(failed)?;
    // SAFETY: after `CKR_OK` the pointer is null or points to a list that lives as long as the
    // library, which `library` keeps loaded to the end of this function.
    let sign = unsafe { list.as_ref() }
        .and_then(|list| list.C_Sign)
        .ok_or_else(|| failed("the module has no `C_Sign`".to_owned()))?;

    let mut signature = vec![0; LONGEST];
    let mut length = LONGEST as CK_ULONG;
    // SAFETY: the session is open for as long as we borrow it. `data` and `signature` are given with
    // their true lengths; the module reads the one (its pointer is not const in the standard, but it
    // is an input) and writes no more than `length` bytes to the other.
    let answer = unsafe {
        sign(
            session.handle(),
            data.as_ptr().cast_mut(),
            data.len() as CK_ULONG,
            signature.as_mut_ptr(),
            &raw mut length,
        )
    };
    check(answer, "C_Sign").map_err(failed)?;
    signature.truncate(usize::try_from(length).unwrap_or(LONGEST));
    Ok(signature)
}

fn check(answer: CK_RV, function: &str) -> Result<(), String> {
    if answer == CKR_OK {
        return Ok(());
    }
    Err(format!("`{function}` answers {answer:#x}"))
}
