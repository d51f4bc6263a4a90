//! The files `~/.aws/config` and `~/.aws/credentials`, read by `aws-runtime`, and the settings in them.

use std::{
    fmt,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use aws_runtime::env_config::{
    file::{EnvConfigFileKind, EnvConfigFiles},
    property::PropertiesKey,
    section::EnvConfigSections,
    source,
};
use aws_types::os_shim_internal::{Env, Fs};
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::text::inline;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::now_or_never;
use crate::Call;

/// The characters that the SDK's reader does not take in names of sections.
const UNUSUAL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'/')
    .remove(b'.')
    .remove(b'%')
    .remove(b'@')
    .remove(b':')
    .remove(b'+');

/// The largest file that is read.
const LARGEST: u64 = 4 << 20;

/// Both files, and the profile that counts.
pub(super) struct Config<'a> {
    call: &'a Call,
    /// The name of the profile.
    pub(super) profile: String,
    /// Whether `--profile` named it. Then the environment's keys do not count.
    pub(super) is_from_flag: bool,
    /// `~/.aws/config`.
    pub(super) settings: File,
    /// `~/.aws/credentials`.
    pub(super) credentials: File,
}

/// One of the two files.
pub(super) struct File {
    pub(super) path: PathBuf,
    sections: EnvConfigSections,
}

impl<'a> Config<'a> {
    /// Reads the files. The named profile must exist.
    pub(super) fn load(call: &'a Call, profile: Option<&str>) -> Result<Self, Refusal> {
        let home = call.surroundings.home();
        let path = |variable: &str, default: &str| {
            let named = call.var(variable).unwrap_or_else(|| default.to_owned());
            match (named.strip_prefix("~/"), &home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(named),
            }
        };
        let settings = path("AWS_CONFIG_FILE", "~/.aws/config");
        let credentials = path("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials");
        let settings = File::read(settings, EnvConfigFileKind::Config)?;
        let credentials = File::read(credentials, EnvConfigFileKind::Credentials)?;
        let flag = profile.map(|name| (name.to_owned(), "`--profile`"));
        let named = flag
            .or_else(|| Some((call.var("AWS_DEFAULT_PROFILE")?, "`AWS_DEFAULT_PROFILE`")))
            .or_else(|| Some((call.var("AWS_PROFILE")?, "`AWS_PROFILE`")));
        let loaded = Self {
            call,
            profile: named.as_ref().map_or("default", |(name, _)| name).to_owned(),
            is_from_flag: profile.is_some(),
            settings,
            credentials,
        };
        match named {
            Some((name, from)) if !loaded.has(&name) => Err(Refusal::BadConfig(format!(
                "{from} names the profile `{}`, which is neither in `{}` nor in `{}`",
                inline(&name),
                loaded.settings,
                loaded.credentials
            ))),
            _ => Ok(loaded),
        }
    }

    /// Whether one of the files has this profile.
    pub(super) fn has(&self, profile: &str) -> bool {
        self.settings.has(profile) || self.credentials.has(profile)
    }

    /// A setting of the profile that counts.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.of(&self.profile, name)
    }

    /// A setting of a profile. The credentials file wins.
    pub(super) fn of(&self, profile: &str, name: &str) -> Option<String> {
        self.credentials.get(profile, name).or_else(|| self.settings.get(profile, name))
    }

    /// A setting of an SSO session, and whether the session exists.
    pub(super) fn sso_session(&self, session: &str) -> Option<impl Fn(&str) -> Option<String>> {
        let found = self.settings.sections.sso_session(&plain_name(session))?;
        Some(|name: &str| found.get(name).map(str::to_owned))
    }

    /// A setting that the environment or the profile has.
    pub(super) fn setting(&self, variable: &str, name: &str) -> Option<String> {
        self.call.var(variable).or_else(|| self.get(name))
    }

    /// Whether a setting is `true`.
    pub(super) fn switch(&self, variable: &str, name: &str) -> bool {
        self.setting(variable, name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The URL that replaces the endpoint of a service, such as `STS`.
    pub(super) fn endpoint(&self, service: &str) -> Option<String> {
        let ignored = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS";
        if self.switch(ignored, "ignore_configured_endpoint_urls") {
            return None;
        }
        self.call
            .var(&format!("AWS_ENDPOINT_URL_{service}"))
            .or_else(|| self.call.var("AWS_ENDPOINT_URL"))
            .or_else(|| self.service_endpoint(&service.to_lowercase()))
            .or_else(|| self.get("endpoint_url"))
    }

    /// `endpoint_url` of a service in the section that the profile's `services` names.
    fn service_endpoint(&self, service: &str) -> Option<String> {
        let key = PropertiesKey::builder()
            .section_key("services")
            .section_name(self.get("services")?)
            .property_name(service)
            .sub_property_name("endpoint_url")
            .build()
            .ok()?;
        self.settings.sections.other_sections().get(&key).cloned()
    }
}

impl File {
    /// Reads a file. One that does not exist is empty.
    fn read(path: PathBuf, kind: EnvConfigFileKind) -> Result<Self, Refusal> {
        let content = match file::read(&path, &Limits::NAMED.at_most(LARGEST)) {
            Ok(content) => content,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Self { path, sections: EnvConfigSections::default() });
            }
            Err(error) => {
                return Err(Refusal::BadConfig(format!("cannot read `{}`: {error}", shown(&path))));
            }
        };
        let text = String::from_utf8(content.to_vec())
            .map_err(|_| Refusal::BadConfig(format!("`{}` is not UTF-8", shown(&path))))?;
        let files = EnvConfigFiles::builder().with_contents(kind, plain_names(&text)).build();
        let source = now_or_never(source::load(&Env::from_slice(&[]), &Fs::real(), &files));
        let bad = |why: String| {
            Refusal::BadConfig(format!(
                "`{}` cannot be read as a file of profiles: {why}",
                shown(&path)
            ))
        };
        let source = source
            .ok_or_else(|| bad("it is not in memory".into()))?
            .map_err(|error| bad(error.to_string()))?;
        let sections = EnvConfigSections::parse(source).map_err(|error| bad(error.to_string()))?;
        Ok(Self { path, sections })
    }

    fn has(&self, profile: &str) -> bool {
        self.sections.get_profile(&plain_name(profile)).is_some()
    }

    /// A setting of a profile in this file.
    pub(super) fn get(&self, profile: &str, name: &str) -> Option<String> {
        self.sections.get_profile(&plain_name(profile))?.get(name).map(str::to_owned)
    }
}

/// The text of a file with names of sections that the SDK's reader takes. It skips those with blanks and other
/// characters, which `aws configure` writes in quotes: `[profile "my team"]`.
fn plain_names(text: &str) -> String {
    let line = |line: &str| -> Option<String> {
        let (name, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
        let name = name.trim();
        let kinds = ["profile", "sso-session", "services"];
        let kind = kinds
            .into_iter()
            .find(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with([' ', '\t'])));
        let own = name[kind.map_or(0, str::len)..].trim();
        let quoted = ['"', '\'']
            .into_iter()
            .find_map(|quote| own.strip_prefix(quote).and_then(|own| own.strip_suffix(quote)));
        let own = plain_name(quoted.unwrap_or(own));
        let head = kind.map_or(String::new(), |kind| format!("{kind} "));
        Some(format!("[{head}{own}]{rest}"))
    };
    let lines: Vec<_> =
        text.lines().map(|text| line(text).unwrap_or_else(|| text.to_owned())).collect();
    lines.join("\n")
}

/// A name without characters that the SDK's reader does not take.
fn plain_name(name: &str) -> String {
    utf8_percent_encode(name, UNUSUAL).to_string()
}

fn shown(path: &Path) -> String {
    inline(&path.display().to_string())
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sections_are_read_as_people_write_them() {
        for (written, read) in [
            ("[default]", "[default]"),
            ("  [profile dev] # mine", "[profile dev] # mine"),
            ("[profile \"my team\"]", "[profile my%20team]"),
            ("[profile 'a b']", "[profile a%20b]"),
            ("[sso-session corp]", "[sso-session corp]"),
            ("[my team]", "[my%20team]"),
            ("[profiles]", "[profiles]"),
            ("region = [x]", "region = [x]"),
            ("[broken", "[broken"),
        ] {
            assert_eq!(plain_names(written), read);
        }
    }
}
