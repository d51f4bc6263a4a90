//! Server URLs, proxies and what servers answer with.

use serde_json::json;

use super::{List, Listener, Setting, Stage, VERSIONS};
use crate::transport::pki::USUAL;

/// Addresses and names of servers.
pub(super) fn urls(list: &mut List) {
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

/// Variables as `NAME=value`.
type Variables = fn(&Stage) -> Vec<String>;

/// Proxies named in the kubeconfig and in the environment.
pub(super) fn proxies(list: &mut List) {
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
pub(super) fn answers(list: &mut List) {
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
