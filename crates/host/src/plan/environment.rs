//! The environment a plugin gets: ours, then the kubeconfig's, then the request.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
};

use keyward_protocol::{Secret, exec, signer};

use keyward_process::surroundings::Surroundings;

/// What a plugin sees of our environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Environment {
    /// All of it.
    #[default]
    Inherit,
    /// Nothing of it: the plugin gets the configured variables and the request, and that is all.
    Clean,
    /// The variables of these names.
    Only(Vec<String>),
}

impl Environment {
    /// What there is of these surroundings to be seen.
    pub(crate) fn of(&self, surroundings: &Surroundings) -> Vec<(OsString, OsString)> {
        let mut vars = match self {
            Self::Clean => Vec::new(),
            _ => surroundings.vars(),
        };
        if let Self::Only(names) = self {
            vars.retain(|(name, _)| names.iter().any(|wanted| name == wanted.as_str()));
        }
        vars
    }
}

/// Who gave a plugin a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is our own.
    Inherited,
    /// The kubeconfig's `env`.
    Configured,
    /// [`super::Settings::variables`].
    Set,
    /// The request itself.
    Request,
}

/// A variable of a plugin's environment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: OsString,
    pub(crate) value: OsString,
    pub(crate) origin: Origin,
}

impl Environment {
    /// The whole environment, each name once: the last one to say it wins (EN-01 to EN-06). A
    /// request that we inherited, being a plugin ourselves, is never passed on. `request` is the
    /// variable it stands in, and its text.
    pub(crate) fn compose(
        &self,
        surroundings: &Surroundings,
        configured: &[(String, Secret)],
        set: &[(String, Secret)],
        request: (&str, &str),
    ) -> Vec<Variable> {
        let mut all = Variables::default();
        for (name, value) in surroundings.vars() {
            let ours =
                [exec::REQUEST_VARIABLE, signer::REQUEST_VARIABLE].iter().any(|n| name == *n);
            if !ours && self.passes(&name) {
                all.put(Variable { name, value, origin: Origin::Inherited });
            }
        }
        for (said, origin) in [(configured, Origin::Configured), (set, Origin::Set)] {
            for (name, value) in said {
                let (name, value) = split(name, value.expose());
                all.put(Variable { name, value, origin });
            }
        }
        let (name, value) = (request.0.into(), request.1.into());
        all.put(Variable { name, value, origin: Origin::Request });
        all.list
    }

    fn passes(&self, name: &OsStr) -> bool {
        match self {
            Self::Inherit => true,
            Self::Clean => false,
            Self::Only(names) => names.iter().any(|n| OsStr::new(n) == name),
        }
    }
}

/// The variable that comes of a name with a value. A name that has a `=` in it says another name to
/// whoever reads the environment, and must not shadow that one: `KUBERNETES_EXEC_INFO=x` would forge
/// the request. A `=` at the beginning belongs to the name.
fn split(name: &str, value: &str) -> (OsString, OsString) {
    match name.char_indices().find(|(at, c)| *at > 0 && *c == '=') {
        Some((at, _)) => (name[..at].into(), format!("{}={value}", &name[at + 1..]).into()),
        // Nothing before the first `=`: the name goes on to the next.
        None if name.is_empty() => match value.find('=') {
            Some(at) => (format!("={}", &value[..at]).into(), value[at + 1..].into()),
            None => (name.into(), value.into()),
        },
        None => (name.into(), value.into()),
    }
}

/// Variables in order, each name once, and where each stands: a kubeconfig may have very many.
#[derive(Default)]
struct Variables {
    list: Vec<Variable>,
    places: HashMap<OsString, usize>,
}

impl Variables {
    fn put(&mut self, variable: Variable) {
        match self.places.get(&variable.name) {
            Some(&place) => self.list[place] = variable,
            None => {
                self.places.insert(variable.name.clone(), self.list.len());
                self.list.push(variable);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_process::surroundings::Fixed;

    fn composed(environment: &Environment, configured: &[(&str, &str)]) -> Vec<String> {
        let surroundings = Surroundings::fixed(Fixed {
            vars: [("A", "ours"), ("B", "ours"), (exec::REQUEST_VARIABLE, "stale")]
                .map(|(k, v)| (k.into(), v.into()))
                .into(),
            ..Fixed::default()
        });
        let configured: Vec<_> =
            configured.iter().map(|(k, v)| ((*k).to_owned(), Secret::new(*v))).collect();
        let set = [("CHAIN".to_owned(), Secret::new("x"))];
        environment
            .compose(&surroundings, &configured, &set, (exec::REQUEST_VARIABLE, "{}"))
            .into_iter()
            .map(|v| format!("{}={}", v.name.display(), v.value.display()))
            .collect()
    }

    #[test]
    fn later_words_win() {
        assert_eq!(
            composed(&Environment::Inherit, &[("B", "theirs"), ("C", "1"), ("C", "$A")]),
            ["A=ours", "B=theirs", "C=$A", "CHAIN=x", "KUBERNETES_EXEC_INFO={}"]
        );
    }

    #[test]
    fn the_request_cannot_be_forged() {
        assert_eq!(
            composed(
                &Environment::Inherit,
                &[(exec::REQUEST_VARIABLE, "forged"), ("CHAIN", "forged")]
            ),
            ["A=ours", "B=ours", "KUBERNETES_EXEC_INFO={}", "CHAIN=x"]
        );
    }

    #[test]
    fn a_name_with_an_equals_sign_in_it_is_the_name_before_it() {
        assert_eq!(
            composed(
                &Environment::Inherit,
                &[("KUBERNETES_EXEC_INFO=x", "forged"), ("B=", "1"), ("=C:", "2"), ("", "=C:=3")]
            ),
            ["A=ours", "B==1", "KUBERNETES_EXEC_INFO={}", "=C:=2", "==C:=3", "CHAIN=x"]
        );
    }

    #[test]
    fn clean_means_what_was_configured_and_nothing_else() {
        assert_eq!(
            composed(&Environment::Clean, &[("C", "")]),
            ["C=", "CHAIN=x", "KUBERNETES_EXEC_INFO={}"]
        );
        assert_eq!(
            composed(&Environment::Only(vec!["B".into(), exec::REQUEST_VARIABLE.into()]), &[]),
            ["B=ours", "CHAIN=x", "KUBERNETES_EXEC_INFO={}"]
        );
    }
}
