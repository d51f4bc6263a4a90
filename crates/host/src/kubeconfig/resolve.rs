//! From a configuration and flags to the one cluster and user of a [`Target`].

use std::{io::ErrorKind, path::Path};

use keyward_protocol::{text, url};

use super::{
    Class, Cluster, Context, EXEC_EXTENSION, Kubeconfig, Named, Overrides, Place, Problem, Subject,
    Target, User,
    decode::secret_from,
    incluster::Pod,
    load::read,
    path,
    problem::report,
    server::{self, Transport},
    validate::Judge,
};
use crate::{Error, Surroundings, error::inline};

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
        let choice = self.choose(overrides).map_err(|p| report(vec![p]))?;
        match self.judge(choice, overrides, surroundings) {
            Ok(judged) => self.finish(judged, overrides, surroundings, &pod).map_err(report),
            Err(problems) => match problems.as_slice() {
                [only] if only.class == Class::EmptyConfig => match pod.target(overrides) {
                    Some(target) => target.map_err(report),
                    None => Err(self.with_contexts(report(problems))),
                },
                _ => Err(self.with_contexts(report(problems))),
            },
        }
    }

    /// Follows the names: flags first, then the context.
    fn choose<'a>(&'a self, overrides: &'a Overrides) -> Result<Choice<'a>, Problem> {
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
        Ok(Choice { context_name, context, user_name, user, cluster_name, cluster })
    }

    /// Puts the overrides on the entries and validates both.
    fn judge<'a>(
        &self,
        choice: Choice<'a>,
        overrides: &Overrides,
        surroundings: &Surroundings,
    ) -> Result<Judged<'a>, Vec<Problem>> {
        let mut problems = Vec::new();
        if choice.context.is_none() && !choice.context_name.is_empty() {
            problems.push(
                Problem::new(
                    Class::ContextNotFound,
                    self.current_context_place.clone(),
                    format!(
                        "names the context `{}`, which does not exist",
                        inline(choice.context_name)
                    ),
                )
                .field("current-context"),
            );
        }
        let (mut user, user_place) = take(choice.user);
        if let Err(problem) = path::settle_user(&mut user, &user_place, surroundings) {
            problems.push(problem.about(Subject::User(choice.user_name.to_owned())));
        }
        overrides.apply_user(&mut user);
        let mut judge = Judge {
            subject: Subject::User(choice.user_name.to_owned()),
            place: user_place.clone(),
            surroundings,
            problems: &mut problems,
        };
        judge.user(&user);

        let (mut cluster, cluster_place) = take(choice.cluster);
        let subject = Subject::Cluster(choice.cluster_name.to_owned());
        if let Err(problem) = path::settle_cluster(&mut cluster, &cluster_place, surroundings) {
            problems.push(problem.about(subject.clone()));
        }
        overrides.apply_cluster(&mut cluster);
        if cluster_place.file.is_none() && says_nothing(&cluster) {
            problems.push(self.nothing(&choice, problems.is_empty()));
        } else {
            let mut judge = Judge {
                subject,
                place: cluster_place.clone(),
                surroundings,
                problems: &mut problems,
            };
            judge.cluster(&cluster);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Judged { choice, user, user_place, cluster, cluster_place })
    }

    /// There is no cluster. If that is the only problem, it is one of having nothing configured.
    fn nothing(&self, choice: &Choice<'_>, alone: bool) -> Problem {
        let class = if alone { Class::EmptyConfig } else { Class::NoServer };
        let (place, message) = match choice.context {
            Some(context) if choice.cluster_name.is_empty() => {
                (context.place.clone(), "names no cluster".to_owned())
            }
            Some(context) => (
                context.place.clone(),
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

    /// Adds which contexts there are to choose from (D9).
    fn with_contexts(&self, error: Error) -> Error {
        const SHOWN: usize = 10;
        let unchosen = |p: &Problem| {
            matches!(p.class, Class::EmptyConfig | Class::ContextNotFound) && p.subject.is_none()
        };
        if self.contexts.is_empty() || !error.problems().iter().any(unchosen) {
            return error;
        }
        let names = self.contexts.iter().take(SHOWN);
        let mut names: Vec<_> =
            names.map(|context| format!("`{}`", inline(&context.name))).collect();
        if self.contexts.len() > SHOWN {
            names.push(format!("and {} more", self.contexts.len() - SHOWN));
        }
        error.with_hint(format!("choose a context with `--context`: {}", names.join(", ")))
    }

    /// Everything is valid: reads the files it names and decides what may be sent.
    fn finish(
        &self,
        judged: Judged<'_>,
        overrides: &Overrides,
        surroundings: &Surroundings,
        pod: &Pod<'_>,
    ) -> Result<Target, Vec<Problem>> {
        let Judged { choice, user, user_place, cluster, cluster_place } = judged;
        let said = choice.context.map_or("", |c| &c.value.namespace);
        let over = set(overrides.namespace.as_ref());
        let namespace = match over {
            Some(namespace) => namespace.to_owned(),
            None if said.is_empty() => pod.namespace().unwrap_or_else(|| "default".to_owned()),
            None => said.to_owned(),
        };
        let mut target = Target {
            context: choice.context.map_or_else(String::new, |c| c.name.clone()),
            cluster_name: choice.cluster_name.to_owned(),
            cluster_place,
            user_name: choice.user_name.to_owned(),
            user_place,
            namespace,
            namespace_overridden: over.is_some(),
            cluster,
            user,
            exec_config: None,
            in_cluster: false,
            warnings: self.warnings.clone(),
        };
        let mut notices = Vec::new();
        if choice.user.is_none() && !choice.user_name.is_empty() {
            let place = choice.context.map_or_else(Place::default, |c| c.place.clone());
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

impl Target {
    /// Puts server and proxy in their final form, and drops what must not go over an open line.
    fn address(&mut self, notices: &mut Vec<Problem>) {
        let cluster = &mut self.cluster;
        cluster.server = server::normalise(&cluster.server);
        if let Ok(proxy) = server::proxy(&cluster.proxy_url) {
            cluster.proxy_url = proxy;
        }
        let shown = inline(&url::mask(&cluster.server));
        let why = match server::transport(&cluster.server) {
            Transport::Https => {
                let extensions = &cluster.extensions;
                self.exec_config = find(extensions, EXEC_EXTENSION)
                    .map(|extension| extension.value.clone())
                    .filter(|value| !value.is_null());
                return;
            }
            Transport::Plain => format!("`{shown}` is not HTTPS"),
            Transport::Unsaid => {
                format!(
                    "`{shown}` has no scheme and is taken for plain HTTP (`https://` is missing?)"
                )
            }
            Transport::Invalid => format!("`{shown}` is not an address"),
        };
        let user = std::mem::take(&mut self.user);
        self.user.impersonate = user.impersonate.clone();
        cluster.certificate_authority.clear();
        cluster.certificate_authority_data.clear();
        cluster.insecure_skip_tls_verify = false;
        cluster.tls_server_name.clear();
        if has_credentials(&user) {
            notices.push(
                Problem::new(
                    Class::NotHttps,
                    self.cluster_place.clone(),
                    format!(
                        "{why}: the credentials of user `{}` are not sent",
                        inline(&self.user_name)
                    ),
                )
                .about(Subject::Cluster(self.cluster_name.clone()))
                .field("server"),
            );
        }
    }

    /// Reads the files whose content is needed now.
    fn fetch(&mut self, surroundings: &Surroundings) -> Result<(), Problem> {
        let (cluster, user) = (&mut self.cluster, &mut self.user);
        if !cluster.certificate_authority.is_empty() {
            let file = surroundings.absolute(Path::new(&cluster.certificate_authority));
            // It could be opened. What is wrong with its content is said by `Target::check`.
            cluster.certificate_authority_data =
                read(&file).map(|bytes| bytes.to_vec()).unwrap_or_default();
        }
        if user.token.is_empty() && !user.token_file.is_empty() {
            let file = surroundings.absolute(Path::new(&user.token_file));
            let mut bytes = read(&file).map_err(|kind| {
                let class = match kind {
                    ErrorKind::NotFound => Class::FileNotFound,
                    _ => Class::TokenUnreadable,
                };
                let file = inline(&user.token_file);
                let message = format!("cannot be read: `{file}`: {kind}");
                Problem::new(class, self.user_place.clone(), message)
                    .about(Subject::User(self.user_name.clone()))
                    .field("tokenFile")
            })?;
            user.token = secret_from(std::mem::take(&mut *bytes));
        }
        if user.client_certificate.is_empty() && user.client_certificate_data.is_empty() {
            user.client_key.clear();
            user.client_key_data = keyward_protocol::Secret::default();
        }
        if let Some(exec) = &mut user.exec {
            exec.install_hint = text::clean(&exec.install_hint);
        }
        Ok(())
    }
}

impl Overrides {
    /// What is said replaces; a certificate or key given as a file replaces data too (KC-31).
    pub(super) fn apply_user(&self, user: &mut User) {
        replace(&mut user.username, self.username.as_ref());
        replace(&mut user.client_certificate, self.client_certificate.as_ref());
        if set(self.client_certificate.as_ref()).is_some() {
            user.client_certificate_data.clear();
        }
        replace(&mut user.client_key, self.client_key.as_ref());
        if set(self.client_key.as_ref()).is_some() {
            user.client_key_data = keyward_protocol::Secret::default();
        }
        for (field, said) in [(&mut user.token, &self.token), (&mut user.password, &self.password)]
        {
            if let Some(secret) = said.as_ref().filter(|secret| !secret.is_empty()) {
                *field = secret.clone();
            }
        }
        let (who, said) = (&mut user.impersonate, &self.impersonate);
        replace(&mut who.user, Some(&said.user));
        replace(&mut who.uid, Some(&said.uid));
        if !said.groups.is_empty() {
            who.groups.clone_from(&said.groups);
        }
        for (key, values) in &said.extra {
            match who.extra.iter_mut().find(|(known, _)| known == key) {
                Some((_, known)) => known.clone_from(values),
                None => who.extra.push((key.clone(), values.clone())),
            }
        }
    }

    /// What is said replaces, and clears what would contradict it (KC-28, KC-29).
    fn apply_cluster(&self, cluster: &mut Cluster) {
        replace(&mut cluster.server, self.server.as_ref());
        replace(&mut cluster.proxy_url, self.proxy_url.as_ref());
        cluster.disable_compression |= self.disable_compression.unwrap_or(false);
        let insecure = self.insecure_skip_tls_verify.unwrap_or(false);
        let authority = set(self.certificate_authority.as_ref());
        if insecure || authority.is_some() {
            cluster.insecure_skip_tls_verify = insecure;
            authority.unwrap_or_default().clone_into(&mut cluster.certificate_authority);
            cluster.certificate_authority_data.clear();
        }
        let name = set(self.tls_server_name.as_ref());
        if name.is_some() || set(self.server.as_ref()).is_some() {
            name.unwrap_or_default().clone_into(&mut cluster.tls_server_name);
        }
    }
}

/// The entries that names lead to.
struct Choice<'a> {
    context_name: &'a str,
    context: Option<&'a Named<Context>>,
    user_name: &'a str,
    user: Option<&'a Named<User>>,
    cluster_name: &'a str,
    cluster: Option<&'a Named<Cluster>>,
}

/// The same with overrides applied, found valid.
struct Judged<'a> {
    choice: Choice<'a>,
    user: User,
    user_place: Place,
    cluster: Cluster,
    cluster_place: Place,
}

fn find<'a, T>(list: &'a [Named<T>], name: &str) -> Option<&'a Named<T>> {
    list.iter().find(|named| named.name == name)
}

fn take<T: Clone + Default>(named: Option<&Named<T>>) -> (T, Place) {
    named.map_or_else(Default::default, |n| (n.value.clone(), n.place.clone()))
}

/// A flag that says something.
fn set(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn replace(field: &mut String, said: Option<&String>) {
    if let Some(said) = set(said) {
        said.clone_into(field);
    }
}

fn says_nothing(cluster: &Cluster) -> bool {
    let Cluster {
        server,
        tls_server_name,
        insecure_skip_tls_verify,
        certificate_authority,
        certificate_authority_data,
        proxy_url,
        disable_compression,
        extensions,
    } = cluster;
    server.is_empty()
        && tls_server_name.is_empty()
        && !insecure_skip_tls_verify
        && certificate_authority.is_empty()
        && certificate_authority_data.is_empty()
        && proxy_url.is_empty()
        && !disable_compression
        && extensions.is_empty()
}

fn has_credentials(user: &User) -> bool {
    !user.token.is_empty()
        || !user.token_file.is_empty()
        || !user.username.is_empty()
        || !user.password.is_empty()
        || !user.client_certificate.is_empty()
        || !user.client_certificate_data.is_empty()
        || user.exec.is_some()
        || user.auth_provider.is_some()
}
