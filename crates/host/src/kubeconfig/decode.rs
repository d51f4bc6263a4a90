//! From a document to a [`Kubeconfig`]: types and names are checked for every entry, used or not,
//! because the reference does so too.

use std::{collections::HashMap, path::Path, sync::Arc};

use keyward_protocol::{
    Node, Secret,
    exec::Version,
    node::{Entry, Value},
    text::same_name,
};

use super::{
    ApiVersion, AuthProvider, Class, Cluster, Context, Exec, InteractiveMode, Kubeconfig, Lines,
    Named, Place, Problem, Subject, User, field::Reader, types::Listed,
};

/// Reads one document. All its problems are added to `problems`; what is returned is only
/// meaningful if there were none.
pub(super) fn decode(
    bytes: &[u8],
    file: Option<Arc<Path>>,
    problems: &mut Vec<Problem>,
) -> Kubeconfig {
    let mut reader = Reader::new(file, problems);
    let (mut config, mut early) = (Kubeconfig::default(), Early::default());
    // In plain style entry by entry: in a large document the nodes of all entries at once would take
    // several times the room of what is made of them.
    let plain = Node::from_plain_yaml(bytes, |list, item| {
        let before = reader.problems.len();
        let rest = reader.entry(&mut config, list, item);
        if reader.problems.len() > before {
            early.entry(list.to_owned()).or_default().extend(reader.problems.drain(before..));
        }
        rest
    });
    if let Some(document) = plain {
        return reader.document(document, config, early);
    }
    match Node::from_yaml(bytes) {
        Ok(document) => reader.document(document, Kubeconfig::default(), Early::default()),
        Err(error) => {
            let place = reader.place(error.line);
            let message = format!("not a kubeconfig: {}", error.what);
            reader.problems.push(Problem::new(Class::Load, place, message));
            Kubeconfig::default()
        }
    }
}

/// The problems of entries that were read before the rest of the document, by their lists. They are
/// reported in the order of its keys.
type Early = HashMap<String, Vec<Problem>>;

impl Reader<'_> {
    /// Adds what `document` says to `config`, which has the entries that were taken out of it.
    fn document(&mut self, document: Node, mut config: Kubeconfig, mut early: Early) -> Kubeconfig {
        let (mut version, mut kind) = (None, None);
        for entry in self.fields(document) {
            match entry.key.as_str() {
                // The reference looks for these two first, whatever the case of their names.
                name if same_name(name, "apiversion") => self.last(entry, &mut version),
                name if same_name(name, "kind") => self.last(entry, &mut kind),
                "current-context" => {
                    config.current_context_place = self.place(entry.line);
                    config.current_context = self.text(entry);
                }
                "clusters" | "users" | "contexts" => {
                    let list = entry.key.clone();
                    self.problems.extend(early.remove(&list).unwrap_or_default());
                    for item in self.items(entry) {
                        self.entry(&mut config, &list, item);
                    }
                    match list.as_str() {
                        "clusters" => self.unique(&config.clusters, &list),
                        "users" => self.unique(&config.users, &list),
                        _ => self.unique(&config.contexts, &list),
                    }
                }
                "preferences" => self.preferences(entry, &mut config),
                "extensions" => config.extensions = self.extensions(entry),
                _ => {}
            }
        }
        // Missing or empty is v1; `/v1` is the same in another spelling.
        if let Some((line, version)) = version
            && !matches!(version.as_str(), "" | "/" | "v1" | "/v1")
        {
            self.fault(line, "apiVersion", "must be `v1`");
        }
        if let Some((line, kind)) = kind
            && !matches!(kind.as_str(), "" | "Config")
        {
            self.fault(line, "kind", "must be `Config`");
        }
        config
    }

    /// Adds an entry of a list to the configuration; gives back one of another list.
    fn entry(&mut self, config: &mut Kubeconfig, list: &str, item: Node) -> Option<Node> {
        match list {
            "clusters" => config.clusters.push(self.named(item, "cluster", Self::cluster)),
            "users" => config.users.push(self.named(item, "user", Self::user)),
            "contexts" => config.contexts.push(self.named(item, "context", Self::context)),
            _ => return Some(item),
        }
        None
    }

    /// Keeps a text that is not null, and its line.
    fn last(&mut self, entry: Entry, kept: &mut Option<(u32, String)>) {
        if !entry.value.is_null() {
            *kept = Some((entry.line, self.text(entry)));
        }
    }

    fn cluster(&mut self, node: Node) -> Cluster {
        let mut cluster = Cluster::default();
        for entry in self.fields(node) {
            self.lines.note(&entry.key, entry.line);
            match entry.key.as_str() {
                "server" => cluster.server = self.text(entry),
                "tls-server-name" => cluster.tls_server_name = self.text(entry),
                "insecure-skip-tls-verify" => cluster.insecure_skip_tls_verify = self.flag(entry),
                "certificate-authority" => cluster.certificate_authority = self.text(entry),
                "certificate-authority-data" => {
                    cluster.certificate_authority_data = self.bytes(&entry);
                }
                "proxy-url" => cluster.proxy_url = self.text(entry),
                "disable-compression" => cluster.disable_compression = self.flag(entry),
                "extensions" => cluster.extensions = self.extensions(entry),
                _ => {}
            }
        }
        cluster
    }

    fn user(&mut self, node: Node) -> User {
        let mut user = User::default();
        for entry in self.fields(node) {
            self.lines.note(&entry.key, entry.line);
            match entry.key.as_str() {
                "token" => user.token = self.secret(entry),
                "tokenFile" => user.token_file = self.text(entry),
                "username" => user.username = self.text(entry),
                "password" => user.password = self.secret(entry),
                "client-certificate" => user.client_certificate = self.text(entry),
                "client-certificate-data" => user.client_certificate_data = self.bytes(&entry),
                "client-key" => user.client_key = self.text(entry),
                "client-key-data" => user.client_key_data = Secret::from_bytes(self.bytes(&entry)),
                "as" => user.impersonate.user = self.text(entry),
                "as-uid" => user.impersonate.uid = self.text(entry),
                "as-groups" => user.impersonate.groups = self.texts(entry),
                "as-user-extra" => {
                    user.impersonate.extra = self
                        .inner(entry)
                        .into_iter()
                        .map(|entry| (entry.key.clone(), self.texts(entry)))
                        .collect();
                }
                "exec" if !entry.value.is_null() => user.exec = Some(self.exec(entry)),
                "auth-provider" if !entry.value.is_null() => {
                    user.auth_provider = Some(self.auth_provider(entry));
                }
                "extensions" => user.extensions = self.extensions(entry),
                _ => {}
            }
        }
        user
    }

    fn exec(&mut self, entry: Entry) -> Exec {
        let mut exec = Exec { place: self.place(entry.line), ..Exec::default() };
        let fields = self.inner(entry);
        self.within = "exec.";
        for entry in fields {
            self.lines.note_exec(&entry.key, entry.line);
            match entry.key.as_str() {
                "apiVersion" => exec.api_version = ApiVersion::parse(&self.text(entry)),
                "command" => exec.command = self.text(entry),
                "args" => exec.args = self.texts(entry),
                "env" => (exec.env, exec.unnamed) = self.variables(entry),
                "installHint" => exec.install_hint = self.text(entry),
                "provideClusterInfo" => exec.provide_cluster_info = self.flag(entry),
                "interactiveMode" => {
                    exec.interactive_mode = InteractiveMode::parse(&self.text(entry));
                }
                _ => {}
            }
        }
        self.within = "";
        // Later versions must say it (EV-04, EV-05).
        let lenient =
            matches!(exec.api_version.known(), Some(Version::V1Alpha1 | Version::V1Beta1));
        if lenient && exec.interactive_mode.text().is_empty() {
            exec.interactive_mode = InteractiveMode::IfAvailable;
        }
        exec
    }

    /// The variables, and the lines of those without a name.
    fn variables(&mut self, entry: Entry) -> (Vec<(String, Secret)>, Vec<u32>) {
        let (mut variables, mut unnamed) = (Vec::new(), Vec::new());
        let items = self.items(entry);
        self.within = "exec.env";
        for (index, item) in items.into_iter().enumerate() {
            self.item = Some(index);
            let line = item.line;
            let (mut name, mut value) = (String::new(), Secret::default());
            for entry in self.fields(item) {
                match entry.key.as_str() {
                    "name" => name = self.text(entry),
                    "value" => value = self.secret(entry),
                    _ => {}
                }
            }
            if name.is_empty() {
                unnamed.push(line);
            }
            variables.push((name, value));
        }
        (self.within, self.item) = ("exec.", None);
        (variables, unnamed)
    }

    fn auth_provider(&mut self, entry: Entry) -> AuthProvider {
        let mut provider =
            AuthProvider { place: self.place(entry.line), ..AuthProvider::default() };
        let fields = self.inner(entry);
        self.within = "auth-provider.";
        for entry in fields {
            match entry.key.as_str() {
                "name" => provider.name = self.text(entry),
                "config" => {
                    let entries = self.inner(entry);
                    self.within = "auth-provider.config.";
                    provider.config = entries
                        .into_iter()
                        .map(|entry| (entry.key.clone(), self.secret(entry)))
                        .collect();
                    self.within = "auth-provider.";
                }
                _ => {}
            }
        }
        self.within = "";
        provider
    }

    fn context(&mut self, node: Node) -> Context {
        let mut context = Context::default();
        for entry in self.fields(node) {
            self.lines.note(&entry.key, entry.line);
            match entry.key.as_str() {
                "cluster" => context.cluster = self.text(entry),
                "user" => context.user = self.text(entry),
                "namespace" => context.namespace = self.text(entry),
                "extensions" => context.extensions = self.extensions(entry),
                _ => {}
            }
        }
        context
    }

    fn preferences(&mut self, entry: Entry, config: &mut Kubeconfig) {
        for entry in self.inner(entry) {
            match entry.key.as_str() {
                "colors" => config.preferences_colors = self.flag(entry),
                "extensions" => config.preferences_extensions = self.extensions(entry),
                _ => {}
            }
        }
    }

    /// A list of `{name, extension}`. A name may come again after a null, as in the reference,
    /// which cannot tell such an extension from none.
    fn extensions(&mut self, entry: Entry) -> Vec<Named<Node>> {
        let mut found: Vec<Named<Node>> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for item in self.items(entry) {
            let place = self.place(item.line);
            let (mut name, mut value) = (String::new(), Node::new(Value::Null));
            for entry in self.fields(item) {
                match entry.key.as_str() {
                    "name" => name = self.text(entry),
                    "extension" => value = entry.value,
                    _ => {}
                }
            }
            let named = Named { name, place, lines: Lines::default(), value };
            match known.get(&named.name) {
                Some(&at) if found[at].value.is_null() => found[at] = named,
                Some(&at) => self.twice(&named.name, &found[at].place, named.place, "extensions"),
                None => {
                    known.insert(named.name.clone(), found.len());
                    found.push(named);
                }
            }
        }
        found
    }

    /// An entry `{name, INNER}`.
    fn named<T: Listed + Default>(
        &mut self,
        item: Node,
        inner: &'static str,
        read: fn(&mut Self, Node) -> T,
    ) -> Named<T> {
        let place = self.place(item.line);
        let (mut name, mut body) = (None, None);
        for entry in self.fields(item) {
            match entry.key.as_str() {
                "name" => name = Some(entry),
                key if key == inner => body = Some(entry.value),
                _ => {}
            }
        }
        let name = name.map(|entry| self.text(entry)).unwrap_or_default();
        self.subject = Some(T::SUBJECT(name));
        self.lines = Lines::default();
        let value = body.map(|node| read(self, node)).unwrap_or_default();
        let (Subject::Cluster(name) | Subject::User(name) | Subject::Context(name)) =
            self.subject.take().unwrap_or_else(|| T::SUBJECT(String::new()));
        Named { name, place, lines: self.lines, value }
    }

    fn unique<T: Listed>(&mut self, list: &[Named<T>], field: &str) {
        let mut known: HashMap<&str, &Place> = HashMap::with_capacity(list.len());
        for named in list {
            if let Some(first) = known.get(named.name.as_str()) {
                self.subject = Some(named.subject());
                self.twice(&named.name, first, named.place.clone(), field);
                self.subject = None;
            } else {
                known.insert(&named.name, &named.place);
            }
        }
    }

    /// The names of two entries are the same. Only the name is shown: the entries hold secrets (D7).
    fn twice(&mut self, name: &str, first: &Place, place: Place, field: &str) {
        let mut problem = Problem::new(
            Class::DuplicateName,
            place,
            format!(
                "has the name `{}` twice, first in line {}",
                crate::error::inline(name),
                first.line
            ),
        )
        .field(field);
        problem.subject = self.subject.clone().map(Box::new);
        self.problems.push(problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
users:
- name: u
  user:
    exec:
      apiVersion: v1
      args:
      - a
- name: v
  user:
    token: t0ken
extensions:
- extension: 1
  name: e
contexts:
- context:
    cluster: c
    extensions:
    - extension: x
      name: f
    user: v
  name: x
clusters:
- cluster:
    server: https://h
  name: c
current-context: x
";

    /// Anything that is no plain style makes the reader of the whole take over.
    fn both_ways(text: &str) -> [(String, Vec<Problem>); 2] {
        [text.to_owned(), format!("{text}# not plain\n")].map(|text| {
            let mut problems = Vec::new();
            let config = decode(text.as_bytes(), None, &mut problems);
            let tokens = config.users.iter().map(|user| user.value.token.expose().to_owned());
            (format!("{config:?} {:?}", tokens.collect::<Vec<_>>()), problems)
        })
    }

    #[test]
    fn read_entry_by_entry_a_document_says_the_same() {
        assert!(Node::from_plain_yaml(TEXT.as_bytes(), |_, item| Some(item)).is_some());
        let [plain, whole] = both_ways(TEXT);
        assert!(plain.0.contains("t0ken"));
        assert_eq!(plain, whole);
        assert_eq!(plain.1, []);
    }

    #[test]
    fn faults_are_told_once_and_in_the_same_order_however_it_is_read() {
        let text = TEXT.replace("token: t0ken", "token: 1").replace("- name: v", "- name: u");
        let text = text.replace("server: https://h", "server: 2");
        let [plain, whole] = both_ways(&text);
        assert_eq!(plain, whole);
        let fields: Vec<_> = plain.1.iter().map(|p| p.field.as_deref()).collect();
        assert_eq!(fields, [Some("server"), Some("token"), Some("users")]);
    }

    #[test]
    fn entries_taken_before_the_style_changes_count_once() {
        let [plain, whole] = both_ways(&format!("{TEXT}preferences: {{colors: true}}\n"));
        assert_eq!(plain, whole);
    }
}
