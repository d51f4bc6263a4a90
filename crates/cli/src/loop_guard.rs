//! Stops a kubeconfig whose plugin is `keyward` and leads back to itself.
//!
//! `keyward credential` may be the plugin in a kubeconfig, even in the one it reads. Each run
//! therefore tells its plugins whom it runs for; a run that finds itself in that list ends the
//! chain before anything runs.

use keyward_host::Target;
use keyward_process::surroundings::Surroundings;

use crate::failure::Failure;

/// The variable with the list: a JSON array of strings, outermost first.
pub(crate) const VARIABLE: &str = "KEYWARD_CHAIN";

/// The list with this target's plugin appended, for that plugin. `None` if there is no plugin.
///
/// Fails with a usage error if the plugin is already in the list.
pub(crate) fn extend(
    surroundings: &Surroundings,
    target: &Target,
) -> Result<Option<String>, Failure> {
    let Some(link) = link(target) else { return Ok(None) };
    let mut chain = match surroundings.var(VARIABLE) {
        None => Vec::new(),
        Some(text) => text
            .to_str()
            .and_then(|text| serde_json::from_str::<Vec<String>>(text).ok())
            .ok_or_else(|| Failure::usage(format!("`{VARIABLE}` is set, but not by keyward")))?,
    };
    if chain.contains(&link) {
        let mut failure = Failure::usage("the kubeconfig leads back to itself");
        for (step, link) in chain.iter().enumerate() {
            failure = failure.note(if step == 0 { "started for" } else { "which ran" }, link);
        }
        return Err(failure
            .note("which asked for", link)
            .hint("let the inner `keyward credential` name another user or another kubeconfig"));
    }
    chain.push(link);
    Ok(Some(serde_json::Value::from(chain).to_string()))
}

/// Names a plugin by its kubeconfig entry. The command is included because a file may be a pipe
/// with other content the next time.
fn link(target: &Target) -> Option<String> {
    let exec = target.user.value.exec.as_ref()?;
    let file = target.user.place.file.as_ref();
    let file = file.map(|file| format!(" in `{}`", file.display())).unwrap_or_default();
    Some(format!("user `{}`{file}, plugin `{}`", target.user.name, exec.command))
}
