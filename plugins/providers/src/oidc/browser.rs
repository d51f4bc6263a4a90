//! The browser that opens the login page.

use keyward_process::browser::Browser;

use super::settings::Settings;
use crate::Call;

/// The command to open the page with, or why there is none.
pub(super) fn find(call: &Call, settings: &Settings) -> Result<Browser, &'static str> {
    if settings.skip_browser {
        return Err("`--skip-open-browser` is set");
    }
    match &settings.browser {
        Some(command) => Browser::parse(command).ok_or("`--browser-command` is empty"),
        None => Browser::find(&call.surroundings),
    }
}
