//! Whether a plugin may talk to a person, decided exactly as the reference decides it.

use crate::{Error, Kind, error::inline, kubeconfig::InteractiveMode};

/// Decides by the kubeconfig's `interactiveMode` (IT-01 to IT-05): whether fd 0 is a terminal, and
/// whether it was marked unavailable, with a text that says why.
///
/// Fails with [`Kind::NeedsTerminal`] when `Always` cannot be had, and with [`Kind::BadConfig`] for a
/// mode that does not exist.
pub(super) fn interactive(
    mode: &InteractiveMode,
    stdin_is_terminal: bool,
    unavailable: Option<&str>,
) -> Result<bool, Error> {
    let taken = || needs("standard input is needed for something else");
    match (mode, unavailable) {
        (InteractiveMode::Never, _) => Ok(false),
        (InteractiveMode::IfAvailable, _) => Ok(stdin_is_terminal && unavailable.is_none()),
        (InteractiveMode::Always, _) if !stdin_is_terminal => {
            Err(needs("standard input is not a terminal"))
        }
        (InteractiveMode::Always, None) => Ok(true),
        (InteractiveMode::Always, Some("")) => Err(taken()),
        (InteractiveMode::Always, Some(why)) => Err(taken().note("that is", inline(why))),
        (InteractiveMode::Unknown(text), _) => Err(Error::new(
            Kind::BadConfig,
            match text.as_str() {
                "" => {
                    "`interactiveMode` is missing: it is `Never`, `IfAvailable` or `Always`".into()
                }
                other => format!(
                    "`interactiveMode` is `Never`, `IfAvailable` or `Always`, not `{}`",
                    inline(other)
                ),
            },
        )),
    }
}

fn needs(why: &str) -> Error {
    Error::new(Kind::NeedsTerminal, format!("the plugin always talks to a person, but {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decision_is_the_references() {
        for (mode, terminal, unavailable, expected) in [
            ("Never", true, None, Ok(false)),
            ("Never", false, Some("x"), Ok(false)),
            ("IfAvailable", true, None, Ok(true)),
            ("IfAvailable", false, None, Ok(false)),
            ("IfAvailable", true, Some(""), Ok(false)),
            ("Always", true, None, Ok(true)),
            ("Always", false, None, Err(Kind::NeedsTerminal)),
            ("Always", true, Some("it has a manifest"), Err(Kind::NeedsTerminal)),
            ("always", true, None, Err(Kind::BadConfig)),
            ("", true, None, Err(Kind::BadConfig)),
        ] {
            let mode = InteractiveMode::parse(mode);
            let found = interactive(&mode, terminal, unavailable).map_err(|error| error.kind());
            assert_eq!(found, expected, "{mode:?} {terminal} {unavailable:?}");
        }
    }

    #[test]
    fn the_terminal_is_asked_about_first() {
        let error = interactive(&InteractiveMode::Always, false, Some("it has a manifest"))
            .expect_err("no terminal");
        assert!(error.to_string().contains("not a terminal"), "{error}");
        let error = interactive(&InteractiveMode::Always, true, Some("it has a manifest"))
            .expect_err("taken");
        assert_eq!(error.notes(), [("that is", "it has a manifest".to_owned())]);
    }
}
