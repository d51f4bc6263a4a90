//! The matrix: certificates, keys, authorities, versions of TLS, URLs, proxies, redirects, compression.

use base64::{Engine, prelude::BASE64_STANDARD};
use keyward_testing::proxy::{Kind, Proxy};
use serde_json::{Value, json};

use super::{
    pki::{Issued, KEYS, Leaf, Pki, USUAL, authorities},
    server::Server,
};

/// Where the parts of a case come from.
pub(super) struct Stage {
    pub(super) pki: Pki,
    pub(super) server: Server,
    pub(super) http: Proxy,
    pub(super) https: Proxy,
    pub(super) socks: Proxy,
    pub(super) locked: Proxy,
}

/// One kubeconfig and what is asked with it.
pub(super) struct Setting {
    pub(super) cluster: Value,
    pub(super) user: Value,
    pub(super) path: String,
    /// As `NAME=value`.
    pub(super) variables: Vec<String>,
    /// Written beside the kubeconfig.
    pub(super) files: Vec<(&'static str, String)>,
}

/// A combination.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) make: Box<dyn Fn(&Stage) -> Result<Setting, String>>,
}

const VERSIONS: [(&str, u16); 2] = [("1.2", 0x0303), ("1.3", 0x0304)];
const TOKEN: &str = "a-token";

/// How a listener is set up, beyond the certificate.
struct Listener {
    version: u16,
    curves: Vec<u16>,
    clients: String,
    address: &'static str,
}

impl Listener {
    fn of(version: u16) -> Self {
        Self { version, curves: Vec::new(), clients: String::new(), address: "127.0.0.1:0" }
    }
}

impl Stage {
    fn open(&self, issued: &Issued, chain: &str, listener: &Listener) -> Result<u64, String> {
        self.server.listen(&json!({
            "listen": listener.address,
            "certificate": format!("{}{chain}", issued.certificate),
            "key": issued.key,
            "clients": listener.clients,
            "version": listener.version,
            "curves": listener.curves,
            "away": "https://127.0.0.1:1/version",
        }))
    }

    /// A server with the usual certificate, trusted, and a token.
    fn usual(&self, listener: &Listener) -> Result<Setting, String> {
        let leaf = self.pki.issue(&Leaf::server(USUAL, "p256"))?;
        let port = self.open(&leaf, "", listener)?;
        Ok(Setting::new(port, &self.pki.authority(USUAL)?))
    }

    /// The usual server, which lets clients of `authority` in, and a client of it.
    fn with_client(&self, version: u16, leaf: &Leaf) -> Result<(Setting, Issued), String> {
        let clients = self.pki.authority(&leaf.authority)?;
        let setting = self.usual(&Listener { clients, ..Listener::of(version) })?;
        Ok((setting, self.pki.issue(leaf)?))
    }
}

impl Setting {
    fn new(port: u64, authority: &str) -> Self {
        Self {
            cluster: json!({
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": BASE64_STANDARD.encode(authority),
            }),
            user: json!({ "token": TOKEN }),
            path: "/version".to_owned(),
            variables: Vec::new(),
            files: Vec::new(),
        }
    }

    /// With the authorities in this text, inline or in a file.
    fn trusting(mut self, bundle: &str, in_file: bool) -> Self {
        if in_file {
            self.cluster["certificate-authority-data"].take();
            self.cluster["certificate-authority"] = json!("bundle.pem");
            self.files.push(("bundle.pem", bundle.to_owned()));
        } else {
            self.cluster["certificate-authority-data"] = json!(BASE64_STANDARD.encode(bundle));
        }
        self
    }

    /// With this pair, inline or in files.
    fn showing(mut self, certificate: &str, key: &str, in_file: bool) -> Self {
        if in_file {
            self.user = json!({ "client-certificate": "client.crt", "client-key": "client.key" });
            self.files.push(("client.crt", certificate.to_owned()));
            self.files.push(("client.key", key.to_owned()));
        } else {
            self.user = json!({
                "client-certificate-data": BASE64_STANDARD.encode(certificate),
                "client-key-data": BASE64_STANDARD.encode(key),
            });
        }
        self
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.cluster[field] = value;
        self
    }

    fn port(&self) -> String {
        let server = self.cluster["server"].as_str().unwrap_or_default();
        server.rsplit(':').next().unwrap_or_default().to_owned()
    }
}

/// Collects cases.
#[derive(Default)]
struct List(Vec<Case>);

impl List {
    fn add(&mut self, name: String, make: impl Fn(&Stage) -> Result<Setting, String> + 'static) {
        self.0.push(Case { name, make: Box::new(make) });
    }
}

/// All of them. `hybrid`: whether kubectl knows the post-quantum key exchange.
pub(super) fn all(hybrid: bool) -> Vec<Case> {
    let mut list = List::default();
    pairs(&mut list);
    faults(&mut list);
    bundles(&mut list);
    keys(&mut list);
    exchanges(&mut list, hybrid);
    urls(&mut list);
    proxies(&mut list);
    answers(&mut list);
    list.0
}

/// Every authority with every kind of key, for servers and for clients, in both versions.
fn pairs(list: &mut List) {
    for (name, version) in VERSIONS {
        for authority in authorities() {
            for key in KEYS {
                let by = authority.clone();
                list.add(format!("server {key} by {authority}, TLS {name}"), move |stage| {
                    let issued = stage.pki.issue(&Leaf::server(&by, key))?;
                    let port = stage.open(&issued, "", &Listener::of(version))?;
                    Ok(Setting::new(port, &stage.pki.authority(&by)?))
                });
                let by = authority.clone();
                list.add(format!("client {key} by {authority}, TLS {name}"), move |stage| {
                    let (setting, issued) = stage.with_client(version, &Leaf::client(&by, key))?;
                    Ok(setting.showing(&issued.certificate, &issued.key, false))
                });
            }
        }
        for key in KEYS {
            list.add(format!("client {key}, X.509 v1, TLS {name}"), move |stage| {
                let leaf = Leaf { v1: true, ..Leaf::client(USUAL, key) };
                let (setting, issued) = stage.with_client(version, &leaf)?;
                Ok(setting.showing(&issued.certificate, &issued.key, false))
            });
        }
        for (what, order) in [("sent", 0), ("kept back", 1), ("sent twice", 2)] {
            list.add(format!("server's intermediate {what}, TLS {name}"), move |stage| {
                let leaf = Leaf { intermediate: true, ..Leaf::server(USUAL, "p256") };
                let issued = stage.pki.issue(&leaf)?;
                let chain = match order {
                    0 => issued.intermediate.clone(),
                    1 => String::new(),
                    _ => issued.intermediate.repeat(2),
                };
                let port = stage.open(&issued, &chain, &Listener::of(version))?;
                Ok(Setting::new(port, &stage.pki.authority(USUAL)?))
            });
            list.add(format!("client's intermediate {what}, TLS {name}"), move |stage| {
                let leaf = Leaf { intermediate: true, ..Leaf::client(USUAL, "p256") };
                let (setting, issued) = stage.with_client(version, &leaf)?;
                let more = issued.intermediate.repeat([1, 0, 2][order]);
                Ok(setting.showing(&format!("{}{more}", issued.certificate), &issued.key, false))
            });
        }
    }
}

/// Certificates that should not be accepted.
fn faults(list: &mut List) {
    type Spoil = fn(Leaf) -> Leaf;
    let faults: [(&str, Spoil); 5] = [
        ("over", |leaf| Leaf { years: (2000, 2001), ..leaf }),
        ("not yet valid", |leaf| Leaf { years: (2090, 2099), ..leaf }),
        ("of another name", |leaf| Leaf { name: "DNS:other.example", ..leaf }),
        ("for another use", |leaf| Leaf { usage: "codeSigning", ..leaf }),
        ("of version 1", |leaf| Leaf { v1: true, ..leaf }),
    ];
    for (name, version) in VERSIONS {
        for (what, spoil) in faults {
            for insecure in [false, true] {
                let checked = if insecure { "not checked" } else { "checked" };
                list.add(format!("server {what}, {checked}, TLS {name}"), move |stage| {
                    let issued = stage.pki.issue(&spoil(Leaf::server(USUAL, "p256")))?;
                    let port = stage.open(&issued, "", &Listener::of(version))?;
                    let setting = Setting::new(port, &stage.pki.authority(USUAL)?);
                    if !insecure {
                        return Ok(setting);
                    }
                    let mut setting = setting.with("insecure-skip-tls-verify", json!(true));
                    setting.cluster["certificate-authority-data"].take();
                    Ok(setting)
                });
            }
            list.add(format!("client {what}, TLS {name}"), move |stage| {
                let leaf = spoil(Leaf::client(USUAL, "p256"));
                let (setting, issued) = stage.with_client(version, &leaf)?;
                Ok(setting.showing(&issued.certificate, &issued.key, false))
            });
        }
        list.add(format!("server of an unknown authority, TLS {name}"), move |stage| {
            let other = stage.pki.authority("rsa-sha256")?;
            Ok(stage.usual(&Listener::of(version))?.trusting(&other, false))
        });
        list.add(format!("client of an unknown authority, TLS {name}"), move |stage| {
            let clients = stage.pki.authority("rsa-sha256")?;
            let setting = stage.usual(&Listener { clients, ..Listener::of(version) })?;
            let issued = stage.pki.issue(&Leaf::client(USUAL, "p256"))?;
            Ok(setting.showing(&issued.certificate, &issued.key, false))
        });
        list.add(format!("insecure beside an authority, TLS {name}"), move |stage| {
            let setting = stage.usual(&Listener::of(version))?;
            Ok(setting.with("insecure-skip-tls-verify", json!(true)))
        });
    }
}

/// Files with authorities, as people write them.
fn bundles(list: &mut List) {
    type Write = fn(&str, &str) -> String;
    let bundles: &[(&str, Write)] = &[
        ("alone", |good, _| good.to_owned()),
        ("with comments", |good, _| format!("# our authority\nsubject=x\n\n{good}# end\n")),
        ("with CRLF", |good, _| good.replace('\n', "\r\n")),
        ("without a last newline", |good, _| good.trim_end().to_owned()),
        ("after another", |good, other| format!("{other}{good}")),
        ("before another", |good, other| format!("{good}{other}")),
        ("twice", |good, _| good.repeat(2)),
        ("after a truncated block", |good, other| format!("{}\n{good}", &other[..other.len() / 2])),
        ("before a truncated block", |good, other| format!("{good}{}", &other[..other.len() / 2])),
        ("truncated", |good, _| good[..good.len() / 2].to_owned()),
        ("empty", |_, _| String::new()),
        ("only blanks", |_, _| " \n\n".to_owned()),
        ("no PEM", |_, _| "not a certificate\n".to_owned()),
        ("with a mark of byte order", |good, _| format!("\u{feff}{good}")),
        ("with indented lines", |good, _| good.replace('\n', "\n  ")),
        ("under another label", |good, _| {
            good.replace("BEGIN CERT", "BEGIN X509 CERT").replace("END CERT", "END X509 CERT")
        }),
        ("as a trusted one", |good, _| {
            good.replace("BEGIN CERT", "BEGIN TRUSTED CERT").replace("END CERT", "END TRUSTED CERT")
        }),
        ("with headers in the block", |good, _| good.replacen("-----\n", "-----\nA: b\n\n", 1)),
        ("with text on the line before", |good, _| format!("x {good}")),
        ("with a block of rubbish before", |good, _| {
            format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{good}")
        }),
        ("with a block that is no Base64 before", |good, _| {
            format!("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n{good}")
        }),
    ];
    for (what, write) in bundles {
        for in_file in [false, true] {
            let place = if in_file { "in a file" } else { "inline" };
            list.add(format!("authority {what}, {place}"), move |stage| {
                let good = stage.pki.authority(USUAL)?;
                let other = stage.pki.authority("p384-sha384")?;
                let setting = stage.usual(&Listener::of(0x0304))?;
                Ok(setting.trusting(&write(&good, &other), in_file))
            });
        }
    }
    list.add("authority in a file that is missing".to_owned(), |stage| {
        let mut setting = stage.usual(&Listener::of(0x0304))?.trusting("", true);
        setting.files.clear();
        Ok(setting)
    });
}

/// How keys and certificates of clients are written.
fn keys(list: &mut List) {
    for (name, version) in VERSIONS {
        for key in KEYS {
            // Ed25519 has no form of its own.
            let forms: &[bool] = if *key == "ed25519" { &[false] } else { &[false, true] };
            for &traditional in forms {
                let form = if traditional { "PKCS#1 or SEC1" } else { "PKCS#8" };
                list.add(
                    format!("client key {key} in {form}, in a file, TLS {name}"),
                    move |stage| {
                        let (setting, issued) =
                            stage.with_client(version, &Leaf::client(USUAL, key))?;
                        let text = if traditional {
                            stage
                                .pki
                                .convert(&issued.key, &["pkey", "-in", "input", "-traditional"])?
                        } else {
                            issued.key.clone()
                        };
                        Ok(setting.showing(&issued.certificate, &text, true))
                    },
                );
            }
        }
    }
    type Spoil = fn(&Stage, Issued) -> Result<(String, String), String>;
    let pairs: &[(&str, Spoil)] = &[
        ("encrypted, PKCS#8", |stage, pair| {
            let args = ["pkcs8", "-topk8", "-in", "input", "-passout", "pass:x"];
            Ok((pair.certificate, stage.pki.convert(&pair.key, &args)?))
        }),
        ("encrypted, SEC1", |stage, pair| {
            let args = ["ec", "-in", "input", "-aes256", "-passout", "pass:x"];
            Ok((pair.certificate, stage.pki.convert(&pair.key, &args)?))
        }),
        ("of another key", |stage, pair| {
            let other = stage.pki.issue(&Leaf::client(USUAL, "p384"))?;
            Ok((pair.certificate, other.key))
        }),
        ("of another kind", |stage, pair| {
            let other = stage.pki.issue(&Leaf::client(USUAL, "rsa"))?;
            Ok((pair.certificate, other.key))
        }),
        ("after its parameters", |stage, pair| {
            let parameters = stage.pki.convert("", &["ecparam", "-name", "prime256v1"])?;
            let key = stage.pki.convert(&pair.key, &["pkey", "-in", "input", "-traditional"])?;
            Ok((pair.certificate, format!("{parameters}{key}")))
        }),
        ("with CRLF", |_, pair| {
            Ok((pair.certificate.replace('\n', "\r\n"), pair.key.replace('\n', "\r\n")))
        }),
        ("with comments", |_, pair| {
            Ok((format!("# me\n{}", pair.certificate), format!("# mine\n{}", pair.key)))
        }),
        ("and certificate in both", |_, pair| {
            let both = format!("{}{}", pair.key, pair.certificate);
            Ok((both.clone(), both))
        }),
        ("empty", |_, pair| Ok((pair.certificate, String::new()))),
        ("truncated", |_, pair| {
            let half = pair.key[..pair.key.len() / 2].to_owned();
            Ok((pair.certificate, half))
        }),
        ("under another label", |_, pair| {
            Ok((pair.certificate, pair.key.replace("PRIVATE KEY", "EC PRIVATE KEY")))
        }),
        ("good, certificate empty", |_, pair| Ok((String::new(), pair.key))),
        ("good, certificate truncated", |_, pair| {
            Ok((pair.certificate[..pair.certificate.len() / 2].to_owned(), pair.key))
        }),
        ("good, certificate after a truncated one", |_, pair| {
            let half = &pair.certificate[..pair.certificate.len() / 2];
            Ok((format!("{half}\n{}", pair.certificate), pair.key))
        }),
    ];
    for (what, spoil) in pairs {
        for in_file in [false, true] {
            let place = if in_file { "in files" } else { "inline" };
            list.add(format!("client key {what}, {place}"), move |stage| {
                let (setting, issued) = stage.with_client(0x0304, &Leaf::client(USUAL, "p256"))?;
                let (certificate, key) = spoil(stage, issued)?;
                Ok(setting.showing(&certificate, &key, in_file))
            });
        }
    }
}

/// A server that knows one key exchange only.
fn exchanges(list: &mut List, hybrid: bool) {
    let curves = [("P-256", 23), ("P-384", 24), ("P-521", 25), ("X25519", 29)];
    for (name, version) in VERSIONS {
        for (curve, id) in curves {
            list.add(format!("key exchange {curve}, TLS {name}"), move |stage| {
                stage.usual(&Listener { curves: vec![id], ..Listener::of(version) })
            });
        }
    }
    if hybrid {
        list.add("key exchange X25519MLKEM768, TLS 1.3".to_owned(), |stage| {
            stage.usual(&Listener { curves: vec![4588], ..Listener::of(0x0304) })
        });
    }
}

/// Addresses and names of servers.
fn urls(list: &mut List) {
    type Url = fn(&str) -> String;
    let urls: &[(&str, Url)] = &[
        ("a name", |port| format!("https://localhost:{port}")),
        ("a name in capitals", |port| format!("https://LOCALHOST:{port}")),
        ("a name with a last dot", |port| format!("https://localhost.:{port}")),
        ("a slash at the end", |port| format!("https://127.0.0.1:{port}/")),
        ("a path", |port| format!("https://127.0.0.1:{port}/k8s/clusters/c-1")),
        ("a path and a slash", |port| format!("https://127.0.0.1:{port}/k8s/")),
        ("a path with an escape", |port| format!("https://127.0.0.1:{port}/a%20b")),
        ("a query", |port| format!("https://127.0.0.1:{port}/?a=b")),
        ("a fragment", |port| format!("https://127.0.0.1:{port}/#a")),
        ("a user", |port| format!("https://anna:secret@127.0.0.1:{port}")),
        ("a scheme in capitals", |port| format!("HTTPS://127.0.0.1:{port}")),
        ("no scheme", |port| format!("127.0.0.1:{port}")),
        ("a name without scheme", |port| format!("localhost:{port}")),
        ("an escape that is none in the host", |port| format!("https://127.0.0.1%zz:{port}")),
        ("an escape that is none in the path", |port| format!("https://127.0.0.1:{port}/%zz")),
        ("an unknown scheme", |port| format!("ftp://127.0.0.1:{port}")),
        ("a port too large", |_| "https://127.0.0.1:99999".to_owned()),
        ("a space", |port| format!("https://127.0.0.1 :{port}")),
        ("blanks around", |port| format!(" https://127.0.0.1:{port} ")),
        ("HTTP to a TLS port", |port| format!("http://127.0.0.1:{port}")),
        ("nobody listening", |_| "https://127.0.0.1:1".to_owned()),
    ];
    for (what, url) in urls {
        list.add(format!("server URL with {what}"), move |stage| {
            let setting = stage.usual(&Listener::of(0x0304))?;
            let url = url(&setting.port());
            Ok(setting.with("server", json!(url)))
        });
    }
    let sixes: [(&str, Url); 3] = [
        ("an IPv6 address", |port| format!("https://[::1]:{port}")),
        ("an IPv6 address with a zone", |port| format!("https://[::1%25lo]:{port}")),
        ("an IPv6 address with a bare zone", |port| format!("https://[::1%lo]:{port}")),
    ];
    for (what, url) in sixes {
        list.add(format!("server URL with {what}"), move |stage| {
            let listener = Listener { address: "[::1]:0", ..Listener::of(0x0304) };
            let setting = stage.usual(&listener)?;
            let url = url(&setting.port());
            Ok(setting.with("server", json!(url)))
        });
    }
    for (version, number) in VERSIONS {
        for name in [
            "api.example",
            "API.EXAMPLE",
            "api.example.",
            "other.example",
            "127.0.0.1",
            "a b",
            "::1",
        ] {
            list.add(format!("tls-server-name {name}, TLS {version}"), move |stage| {
                Ok(stage.usual(&Listener::of(number))?.with("tls-server-name", json!(name)))
            });
        }
    }
    list.add("plain HTTP".to_owned(), |stage| {
        let port = stage.server.listen(&json!({ "listen": "127.0.0.1:0", "plain": true }))?;
        let mut setting = Setting::new(port, "");
        setting.cluster = json!({ "server": format!("http://127.0.0.1:{port}") });
        Ok(setting)
    });
    list.add("HTTPS to a plain port".to_owned(), |stage| {
        let port = stage.server.listen(&json!({ "listen": "127.0.0.1:0", "plain": true }))?;
        Ok(Setting::new(port, &stage.pki.authority(USUAL)?))
    });
}

/// Proxies named in the kubeconfig and in the environment.
fn proxies(list: &mut List) {
    type Url = fn(&Stage) -> String;
    let proxies: &[(&str, Url)] = &[
        ("HTTP", |stage| stage.http.url()),
        ("HTTPS of an authority that is not trusted", |stage| stage.https.url()),
        ("SOCKS5", |stage| stage.socks.url()),
        ("SOCKS5H", |stage| stage.socks.url().replace("socks5:", "socks5h:")),
        ("HTTP with its password", |stage| stage.locked.url_with("anna", "secret")),
        ("HTTP with a wrong password", |stage| stage.locked.url_with("anna", "wrong")),
        ("HTTP without its password", |stage| stage.locked.url()),
        ("HTTP in a SOCKS5 URL", |stage| stage.http.url().replace("http:", "socks5:")),
        ("of no known kind", |_| "ftp://127.0.0.1:1".to_owned()),
        ("that nobody serves", |_| "http://127.0.0.1:1".to_owned()),
        ("without scheme", |stage| stage.http.url().replace("http://", "")),
        ("empty", |_| String::new()),
    ];
    for (what, url) in proxies {
        for (version, number) in VERSIONS {
            list.add(format!("proxy {what}, TLS {version}"), move |stage| {
                Ok(stage.usual(&Listener::of(number))?.with("proxy-url", json!(url(stage))))
            });
        }
    }
    type Variables = fn(&Stage) -> Vec<String>;
    // Addresses of this machine never go to a proxy of the environment, whatever it says: hence a name.
    let variables: &[(&str, Variables)] = &[
        ("HTTPS_PROXY", |stage| vec![format!("HTTPS_PROXY={}", stage.http.url())]),
        ("https_proxy", |stage| vec![format!("https_proxy={}", stage.http.url())]),
        ("ALL_PROXY", |stage| vec![format!("ALL_PROXY={}", stage.http.url())]),
        ("HTTP_PROXY", |stage| vec![format!("HTTP_PROXY={}", stage.http.url())]),
        ("HTTPS_PROXY without scheme", |stage| {
            vec![format!("HTTPS_PROXY={}", stage.http.url().replace("http://", ""))]
        }),
        ("HTTPS_PROXY of SOCKS5", |stage| vec![format!("HTTPS_PROXY={}", stage.socks.url())]),
        ("HTTPS_PROXY that is broken", |_| vec!["HTTPS_PROXY=http://%zz".to_owned()]),
        ("NO_PROXY with the name", |stage| {
            vec![format!("HTTPS_PROXY={}", stage.http.url()), "NO_PROXY=api.example".to_owned()]
        }),
        ("NO_PROXY with the domain", |stage| {
            vec![format!("HTTPS_PROXY={}", stage.http.url()), "NO_PROXY=.example".to_owned()]
        }),
        ("NO_PROXY with a star", |stage| {
            vec![format!("HTTPS_PROXY={}", stage.http.url()), "NO_PROXY=*".to_owned()]
        }),
    ];
    for (what, variables) in variables {
        for host in ["api.example", "127.0.0.1"] {
            list.add(format!("environment {what}, server {host}"), move |stage| {
                let mut setting = stage.usual(&Listener::of(0x0304))?;
                let url = format!("https://{host}:{}", setting.port());
                setting.variables = variables(stage);
                Ok(setting.with("server", json!(url)))
            });
        }
    }
}

/// What servers answer with.
fn answers(list: &mut List) {
    let mut paths: Vec<String> = vec!["/gzip".to_owned(), "/loop".to_owned()];
    for code in [301, 302, 303, 307, 308] {
        paths.extend([format!("/to/{code}"), format!("/away/{code}")]);
    }
    for code in [201, 204, 400, 401, 403, 404, 409, 429, 500, 503] {
        paths.push(format!("/status/{code}"));
    }
    for path in paths {
        list.add(format!("answer of {path}"), move |stage| {
            Ok(Setting { path: path.clone(), ..stage.usual(&Listener::of(0x0304))? })
        });
    }
    list.add("answer of /gzip, compression off".to_owned(), |stage| {
        let setting = stage.usual(&Listener::of(0x0304))?;
        Ok(Setting { path: "/gzip".to_owned(), ..setting }.with("disable-compression", json!(true)))
    });
}

impl Stage {
    pub(super) fn new(server: Server) -> Result<Self, String> {
        let start = |setup: keyward_testing::proxy::Setup| setup.start().map_err(|e| e.to_string());
        Ok(Self {
            pki: Pki::new()?,
            server,
            http: start(Proxy::setup(Kind::Http))?,
            https: start(Proxy::setup(Kind::Https))?,
            socks: start(Proxy::setup(Kind::Socks5))?,
            locked: start(Proxy::setup(Kind::Http).password("anna", "secret"))?,
        })
    }
}
