//! Writes a configuration: as JSON, which is YAML too, so that everything reads it.

use base64::{Engine, prelude::BASE64_STANDARD};
use keyward_protocol::{Node, Secret, json};

use super::{AuthProvider, Cluster, Context, Exec, Impersonate, Kubeconfig, Named, User};

impl Kubeconfig {
    /// The configuration as a kubeconfig in JSON, entries sorted by name as the reference writes
    /// them. It is a [`Secret`] because it holds everything: tokens, passwords and keys.
    ///
    /// What the reference does not know of is not kept, extensions are.
    pub fn to_json(&self) -> Secret {
        let mut out = Writer::default();
        out.open('{');
        out.text("kind", "Config");
        out.text("apiVersion", "v1");
        if self.preferences_colors || !self.preferences_extensions.is_empty() {
            out.begin("preferences", '{');
            out.flag("colors", self.preferences_colors);
            out.extensions(&self.preferences_extensions);
            out.close('}');
        }
        out.list("clusters", "cluster", &self.clusters, Writer::cluster);
        out.list("users", "user", &self.users, Writer::user);
        out.list("contexts", "context", &self.contexts, Writer::context);
        out.text("current-context", &self.current_context);
        out.extensions(&self.extensions);
        out.close('}');
        out.text.push('\n');
        Secret::new(out.text)
    }
}

/// Indented JSON. An `…_if` leaves out what is empty, as the reference does.
#[derive(Default)]
struct Writer {
    text: String,
    depth: usize,
    /// Whether the list or mapping being written has something in it already.
    filled: bool,
}

impl Writer {
    fn cluster(&mut self, cluster: &Cluster) {
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
        self.text("server", server);
        self.text_if("tls-server-name", tls_server_name);
        self.flag("insecure-skip-tls-verify", *insecure_skip_tls_verify);
        self.text_if("certificate-authority", certificate_authority);
        self.bytes_if("certificate-authority-data", certificate_authority_data);
        self.text_if("proxy-url", proxy_url);
        self.flag("disable-compression", *disable_compression);
        self.extensions(extensions);
    }

    fn user(&mut self, user: &User) {
        let User {
            token,
            token_file,
            username,
            password,
            client_certificate,
            client_certificate_data,
            client_key,
            client_key_data,
            exec,
            auth_provider,
            impersonate,
            extensions,
        } = user;
        self.text_if("client-certificate", client_certificate);
        self.bytes_if("client-certificate-data", client_certificate_data);
        self.text_if("client-key", client_key);
        self.bytes_if("client-key-data", client_key_data.expose_bytes());
        self.text_if("token", token.expose());
        self.text_if("tokenFile", token_file);
        self.impersonate(impersonate);
        self.text_if("username", username);
        self.text_if("password", password.expose());
        if let Some(provider) = auth_provider {
            self.auth_provider(provider);
        }
        if let Some(exec) = exec {
            self.exec(exec);
        }
        self.extensions(extensions);
    }

    fn impersonate(&mut self, impersonate: &Impersonate) {
        self.text_if("as", &impersonate.user);
        self.text_if("as-uid", &impersonate.uid);
        if !impersonate.groups.is_empty() {
            self.texts("as-groups", &impersonate.groups);
        }
        if !impersonate.extra.is_empty() {
            self.begin("as-user-extra", '{');
            for (key, values) in &impersonate.extra {
                self.texts(key, values);
            }
            self.close('}');
        }
    }

    fn auth_provider(&mut self, provider: &AuthProvider) {
        self.begin("auth-provider", '{');
        self.text("name", &provider.name);
        self.begin("config", '{');
        for (key, value) in &provider.config {
            self.text(key, value.expose());
        }
        self.close('}');
        self.close('}');
    }

    fn exec(&mut self, exec: &Exec) {
        self.begin("exec", '{');
        self.text("command", &exec.command);
        self.texts("args", &exec.args);
        self.begin("env", '[');
        for (name, value) in &exec.env {
            self.item();
            self.open('{');
            self.text("name", name);
            self.text("value", value.expose());
            self.close('}');
        }
        self.close(']');
        self.text_if("apiVersion", exec.api_version.text());
        self.text_if("installHint", &exec.install_hint);
        self.key("provideClusterInfo");
        self.text.push_str(if exec.provide_cluster_info { "true" } else { "false" });
        self.text_if("interactiveMode", exec.interactive_mode.text());
        self.close('}');
    }

    fn context(&mut self, context: &Context) {
        self.text("cluster", &context.cluster);
        self.text("user", &context.user);
        self.text_if("namespace", &context.namespace);
        self.extensions(&context.extensions);
    }

    fn extensions(&mut self, extensions: &[Named<Node>]) {
        if extensions.is_empty() {
            return;
        }
        self.begin("extensions", '[');
        for extension in sorted(extensions) {
            self.item();
            self.open('{');
            self.text("name", &extension.name);
            self.key("extension");
            self.text.push_str(&extension.value.to_json());
            self.close('}');
        }
        self.close(']');
    }

    fn list<T>(
        &mut self,
        key: &str,
        inner: &str,
        list: &[Named<T>],
        write: impl Fn(&mut Self, &T),
    ) {
        self.begin(key, '[');
        for named in sorted(list) {
            self.item();
            self.open('{');
            self.text("name", &named.name);
            self.begin(inner, '{');
            write(self, &named.value);
            self.close('}');
            self.close('}');
        }
        self.close(']');
    }

    fn flag(&mut self, key: &str, flag: bool) {
        if flag {
            self.key(key);
            self.text.push_str("true");
        }
    }

    fn bytes_if(&mut self, key: &str, bytes: &[u8]) {
        if !bytes.is_empty() {
            let mut encoded = BASE64_STANDARD.encode(bytes);
            self.text(key, &encoded);
            zeroize::Zeroize::zeroize(&mut encoded);
        }
    }

    fn texts(&mut self, key: &str, texts: &[String]) {
        self.begin(key, '[');
        for text in texts {
            self.item();
            json::push_text(&mut self.text, text);
        }
        self.close(']');
    }

    fn text_if(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        json::push_text(&mut self.text, text);
    }

    fn key(&mut self, key: &str) {
        self.item();
        json::push_text(&mut self.text, key);
        self.text.push_str(": ");
    }

    /// Begins a field that is a list or a mapping.
    fn begin(&mut self, key: &str, bracket: char) {
        self.key(key);
        self.open(bracket);
    }

    /// Starts a new line for the next item, with a comma after the one before.
    fn item(&mut self) {
        if self.filled {
            self.text.push(',');
        }
        self.filled = true;
        self.line();
    }

    fn open(&mut self, bracket: char) {
        self.text.push(bracket);
        self.depth += 1;
        self.filled = false;
    }

    fn close(&mut self, bracket: char) {
        self.depth -= 1;
        if self.filled {
            self.line();
        }
        self.text.push(bracket);
        self.filled = true;
    }

    fn line(&mut self) {
        self.text.push('\n');
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
    }
}

fn sorted<T>(list: &[Named<T>]) -> Vec<&Named<T>> {
    let mut sorted: Vec<_> = list.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    sorted
}
