//! The environment a plugin gets: ours, then the kubeconfig's, then the request.

use std::ffi::{OsStr, OsString};

use keyward_protocol::{Secret, exec, signer};

use keyward_process::surroundings::{Surroundings, merge};

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

/// Who gave a plugin a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableOrigin {
    /// Keyward's own environment.
    Inherited,
    /// The kubeconfig's `env`.
    Configured,
    /// [`crate::PlanSettings::variables`].
    Set,
    /// The request itself.
    Request,
}

/// A variable of a plugin's environment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: OsString,
    pub(crate) value: OsString,
    pub(crate) origin: VariableOrigin,
}

impl Environment {
    /// The whole environment, each name once: the last one to say it wins (EN-01 to EN-06). `request`
    /// is the variable that a plugin is asked by, and its value; one that we inherited, being a plugin
    /// ourselves, is never passed on.
    pub(crate) fn compose(
        &self,
        surroundings: &Surroundings,
        configured: &[(String, Secret)],
        set: &[(String, Secret)],
        request: Option<(&str, &str)>,
    ) -> Vec<Variable> {
        let ours = |name: &OsStr| {
            let requests = [exec::REQUEST_VARIABLE, signer::REQUEST_VARIABLE];
            request.is_some() && requests.iter().any(|request| name == *request)
        };
        let inherited = surroundings.vars().into_iter();
        let inherited = inherited.filter(|(name, _)| self.passes(name) && !ours(name));
        let mut all: Vec<Variable> = inherited
            .map(|(name, value)| Variable { name, value, origin: VariableOrigin::Inherited })
            .collect();
        let mut put = |name: &str, value: &str, origin| {
            all.push(Variable { name: name.into(), value: value.into(), origin });
        };
        for (name, value) in configured {
            put(name, value.expose(), VariableOrigin::Configured);
        }
        for (name, value) in set {
            put(name, value.expose(), VariableOrigin::Set);
        }
        if let Some((name, value)) = request {
            put(name, value, VariableOrigin::Request);
        }
        merge(all, |variable| (&variable.name, &variable.value))
    }

    fn passes(&self, name: &OsStr) -> bool {
        match self {
            Self::Inherit => true,
            Self::Clean => false,
            Self::Only(names) => names.iter().any(|n| OsStr::new(n) == name),
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
            .compose(&surroundings, &configured, &set, Some((exec::REQUEST_VARIABLE, "{}")))
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
            ["A=ours", "B=ours", "CHAIN=x", "KUBERNETES_EXEC_INFO={}"]
        );
    }

    #[test]
    fn a_name_with_an_equals_sign_in_it_is_the_name_before_it() {
        assert_eq!(
            composed(
                &Environment::Inherit,
                &[("KUBERNETES_EXEC_INFO=x", "forged"), ("B=", "1"), ("=C:", "2"), ("", "=C:=3")]
            ),
            ["A=ours", "B==1", "=C:=2", "==C:=3", "CHAIN=x", "KUBERNETES_EXEC_INFO={}"]
        );
    }

    #[test]
    fn of_entries_without_a_name_the_last_one_counts() {
        assert_eq!(
            composed(&Environment::Clean, &[("", "{"), ("", "=x=1"), ("", "y"), ("", "")]),
            ["==x=1", "=", "CHAIN=x", "KUBERNETES_EXEC_INFO={}"]
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
