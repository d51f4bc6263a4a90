//! From a configuration and flags to the one cluster and user of a [`Target`].

use super::{
    Class, Cluster, Context, Kubeconfig, Named, Overrides, Place, Problem, Subject, Target, User,
    incluster::Pod, overrides::set, path, problem::report, suggest, validate::Judge,
};
use keyward_process::surroundings::Surroundings;

use crate::{Error, error::inline};

impl Kubeconfig {
    /// The effective cluster and user; all problems reported together (EV-10).
    ///
    /// Files that are named are looked at: the certificate authority and a token file are read, a
    /// client certificate and its key must be there. Nothing is run. Where the configuration says
    /// nothing at all, the service account of the pod we run in is used, if we run in one.
    pub fn resolve(
        &self,
        overrides: &Overrides,
        surroundings: &Surroundings,
    ) -> Result<Target, Error> {
        let pod = Pod::new(surroundings);
        let choice = self.choose(overrides).map_err(|p| self.suggest(vec![p], overrides))?;
        match self.judge(&choice, overrides, surroundings) {
            Ok(entries) => {
                self.finish(&choice, entries, overrides, surroundings, &pod).map_err(report)
            }
            Err(problems) => match problems.as_slice() {
                [only] if only.class == Class::EmptyConfig => match pod.target(overrides) {
                    Some(target) => target.map_err(report),
                    None => Err(self.suggest(problems, overrides)),
                },
                _ => Err(self.suggest(problems, overrides)),
            },
        }
    }

    /// Follows the names: flags first, then the context.
    fn choose<'a>(&'a self, overrides: &'a Overrides) -> Result<Chosen<'a>, Problem> {
        let named = set(overrides.context.as_ref());
        let context_name = named.unwrap_or(&self.current_context);
        let context = find(&self.contexts, context_name);
        let by_context = |name: fn(&Context) -> &String| context.map_or("", |c| name(&c.value));

        let named_user = set(overrides.user.as_ref());
        let user_name = named_user.unwrap_or(by_context(|c| &c.user));
        let user = find(&self.users, user_name);
        let missing = |class, what: &str, name: &str| {
            let message = format!("there is no {what} `{}`", inline(name));
            Problem::new(class, Place::default(), message)
        };
        if user.is_none() && named_user.is_some() {
            return Err(missing(Class::OverrideUserNotFound, "user", user_name));
        }
        if context.is_none() && named.is_some() {
            return Err(missing(Class::OverrideContextNotFound, "context", context_name));
        }
        let named_cluster = set(overrides.cluster.as_ref());
        let cluster_name = named_cluster.unwrap_or(by_context(|c| &c.cluster));
        let cluster = find(&self.clusters, cluster_name);
        if cluster.is_none() && named_cluster.is_some() {
            return Err(missing(Class::OverrideClusterNotFound, "cluster", cluster_name));
        }
        Ok(Chosen { context_name, context, user_name, user, cluster_name, cluster })
    }

    /// Puts the overrides on the user and the cluster, and validates both.
    fn judge(
        &self,
        choice: &Chosen<'_>,
        overrides: &Overrides,
        surroundings: &Surroundings,
    ) -> Result<(Named<User>, Named<Cluster>), Vec<Problem>> {
        let mut problems = Vec::new();
        // What is only in memory must be whole even if another context is named, as in the reference.
        let in_memory = self.current_context_place.file.is_none();
        let current = if in_memory { &self.current_context } else { choice.context_name };
        if !current.is_empty() && find(&self.contexts, current).is_none() {
            problems.push(
                Problem::new(
                    Class::ContextNotFound,
                    self.current_context_place.clone(),
                    format!("names the context `{}`, which does not exist", inline(current)),
                )
                .field("current-context"),
            );
        }
        let mut user = named(choice.user, choice.user_name);
        let mut cluster = named(choice.cluster, choice.cluster_name);
        overrides.mark(&mut user.lines, &mut cluster.lines);
        let settled = path::settle_user(&mut user.value, &user.place, surroundings);
        problems.extend(settled.err().map(|problem| problem.about(user.subject())));
        overrides.apply_user(&mut user.value);
        Judge::of(&user, surroundings, &mut problems).user(&user.value);

        let settled = path::settle_cluster(&mut cluster.value, &cluster.place, surroundings);
        problems.extend(settled.err().map(|problem| problem.about(cluster.subject())));
        overrides.apply_cluster(&mut cluster.value);
        if cluster.place.file.is_none() && cluster.value == Cluster::default() {
            problems.push(self.nothing(choice, problems.is_empty()));
        } else {
            Judge::of(&cluster, surroundings, &mut problems).cluster(&cluster.value);
        }
        if problems.is_empty() { Ok((user, cluster)) } else { Err(problems) }
    }

    /// There is no cluster. If that is the only problem, it is one of having nothing configured.
    fn nothing(&self, choice: &Chosen<'_>, alone: bool) -> Problem {
        let class = if alone { Class::EmptyConfig } else { Class::NoServer };
        let (place, message) = match choice.context {
            Some(context) if choice.cluster_name.is_empty() => {
                (context.place.clone(), "names no cluster".to_owned())
            }
            Some(context) => (
                context.lines.place("cluster", &context.place),
                format!(
                    "names the cluster `{}`, which does not exist or says nothing",
                    inline(choice.cluster_name)
                ),
            ),
            None if self.contexts.is_empty() && self.clusters.is_empty() => {
                (Place::default(), self.nowhere())
            }
            None => (Place::default(), "no context is chosen".to_owned()),
        };
        let problem = Problem::new(class, place, message);
        match choice.context {
            Some(context) => problem.about(Subject::Context(context.name.clone())),
            None => problem,
        }
    }

    /// Says where a configuration was looked for.
    fn nowhere(&self) -> String {
        if self.files.is_empty() {
            return "there is no kubeconfig".to_owned();
        }
        let files = self.files.iter().map(|(path, there)| {
            let state = if *there { "is empty" } else { "is missing" };
            format!("`{}` {state}", inline(&path.to_string_lossy()))
        });
        format!("there is no configuration: {}", files.collect::<Vec<_>>().join(", "))
    }

    /// One error for all `problems`, with the names closest to the one that does not exist, or those
    /// to choose from (D9).
    fn suggest(&self, mut problems: Vec<Problem>, overrides: &Overrides) -> Error {
        let mut hint = None;
        for problem in &mut problems {
            let Some((what, wanted, names)) = self.missing(problem, overrides) else { continue };
            problem.suggestion = suggest::only(wanted, &names).map(Box::from);
            hint = hint.or_else(|| suggest::hint(what, wanted, &names));
        }
        report(problems).with_hint_if(hint)
    }

    /// What kind of entry a problem misses, under which name, and the names that exist.
    fn missing<'a>(
        &'a self,
        problem: &Problem,
        overrides: &'a Overrides,
    ) -> Option<(&'static str, &'a str, Vec<&'a str>)> {
        let given = |flag| set(flag).unwrap_or_default();
        match (problem.class, problem.subject.as_deref()) {
            (Class::OverrideUserNotFound, _) => {
                Some(("user", given(overrides.user.as_ref()), names(&self.users)))
            }
            (Class::OverrideClusterNotFound, _) => {
                Some(("cluster", given(overrides.cluster.as_ref()), names(&self.clusters)))
            }
            (
                Class::EmptyConfig | Class::ContextNotFound | Class::OverrideContextNotFound,
                None,
            ) => {
                let wanted = set(overrides.context.as_ref()).unwrap_or(&self.current_context);
                Some(("context", wanted, names(&self.contexts)))
            }
            (Class::EmptyConfig | Class::NoServer, Some(Subject::Context(name))) => {
                let wanted = &find(&self.contexts, name)?.value.cluster;
                let exists = find(&self.clusters, wanted).is_some();
                (!exists).then(|| ("cluster", wanted.as_str(), names(&self.clusters)))
            }
            _ => None,
        }
    }

    /// Everything is valid: reads the files it names and decides what may be sent.
    fn finish(
        &self,
        choice: &Chosen<'_>,
        (user, cluster): (Named<User>, Named<Cluster>),
        overrides: &Overrides,
        surroundings: &Surroundings,
        pod: &Pod<'_>,
    ) -> Result<Target, Vec<Problem>> {
        let said = choice.context.map_or("", |c| &c.value.namespace);
        let over = set(overrides.namespace.as_ref());
        let namespace = match over {
            Some(namespace) => namespace.to_owned(),
            None if said.is_empty() => pod.namespace().unwrap_or_else(|| "default".to_owned()),
            None => said.to_owned(),
        };
        let mut target = Target {
            context: choice.context.map_or_else(String::new, |c| c.name.clone()),
            cluster,
            user,
            namespace,
            namespace_overridden: over.is_some(),
            warnings: self.warnings.clone(),
            ..Target::default()
        };
        let mut notices = Vec::new();
        if choice.user.is_none() && !choice.user_name.is_empty() {
            let place =
                choice.context.map_or_else(Place::default, |c| c.lines.place("user", &c.place));
            notices.push(
                Problem::new(
                    Class::UserNotFound,
                    place,
                    format!(
                        "names the user `{}`, which does not exist: requests are anonymous",
                        inline(choice.user_name)
                    ),
                )
                .about(Subject::Context(choice.context_name.to_owned())),
            );
        }
        target.address(&mut notices);
        if overrides.strict && !notices.is_empty() {
            return Err(notices);
        }
        let notices = notices.iter().map(ToString::to_string);
        target.warnings.extend(notices);
        target.fetch(surroundings).map_err(|problem| vec![problem])?;
        Ok(target)
    }
}

/// The entries that names lead to.
struct Chosen<'a> {
    context_name: &'a str,
    context: Option<&'a Named<Context>>,
    user_name: &'a str,
    user: Option<&'a Named<User>>,
    cluster_name: &'a str,
    cluster: Option<&'a Named<Cluster>>,
}

pub(super) fn find<'a, T>(list: &'a [Named<T>], name: &str) -> Option<&'a Named<T>> {
    list.iter().find(|named| named.name == name)
}

fn names<T>(list: &[Named<T>]) -> Vec<&str> {
    list.iter().map(|named| named.name.as_str()).collect()
}

/// The entry, or an empty one with the name that leads nowhere.
fn named<T: Clone + Default>(found: Option<&Named<T>>, name: &str) -> Named<T> {
    found.cloned().unwrap_or_else(|| Named { name: name.to_owned(), ..Named::default() })
}
