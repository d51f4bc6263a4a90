//! The proxies carry what they should and turn away whom they should; curl and kubectl judge.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{
    fs,
    process::{Command, Output},
};

use common::kubectl::Kubectl;
use keyward_testing::{
    proxy::{Kind, Proxy},
    server::{Server, User},
};
use serde_json::{Value, json};

const NAME: &str = "only-the-proxy-knows.invalid";

fn server() -> Server {
    let names = ["127.0.0.1", "localhost", NAME];
    let server = Server::setup().names(&names).start().unwrap();
    server.users().token("good", User::new("anna"));
    server
}

/// Asks the server for its health through a proxy, by a name that only the proxy knows.
fn curl(server: &Server, proxy: &Proxy, proxy_url: &str) -> Output {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        fs::write(home.path().join(name), text).unwrap();
        home.path().join(name)
    };
    Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--proxy", proxy_url])
        .arg("--cacert")
        .arg(file("server.pem", server.authority().pem()))
        .arg("--proxy-cacert")
        .arg(file("proxy.pem", proxy.authority().pem()))
        .args(["--header", "Authorization: Bearer good"])
        .arg(format!("https://{NAME}:{}/healthz", server.address().port()))
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .output()
        .expect("curl is on PATH (Debian package `curl`)")
}

#[test]
fn every_kind_of_proxy_carries_and_looks_up_names() {
    for kind in [Kind::Http, Kind::Https, Kind::Socks5] {
        let server = server();
        let proxy = Proxy::setup(kind).name(NAME, server.address()).start().unwrap();
        // With the `h` the name is looked up by the proxy.
        let url = proxy.url().replace("socks5:", "socks5h:");
        let output = curl(&server, &proxy, &url);
        assert_eq!(output.stdout, b"ok", "{kind:?}: {output:?}");
        assert_eq!(proxy.connections(), 1);
        assert_eq!(proxy.targets(), [format!("{NAME}:{}", server.address().port())]);
    }
}

#[test]
fn a_password_is_demanded_by_every_kind() {
    for kind in [Kind::Http, Kind::Https, Kind::Socks5] {
        let server = server();
        let setup = Proxy::setup(kind).name(NAME, server.address());
        let proxy = setup.password("anna", "secret").start().unwrap();
        let remote = |url: String| url.replace("socks5:", "socks5h:");
        for wrong in [proxy.url(), proxy.url_with("anna", "wrong")] {
            let output = curl(&server, &proxy, &remote(wrong));
            assert!(!output.status.success(), "{kind:?}");
        }
        assert_eq!((proxy.connections(), proxy.refused()), (0, 2));
        let output = curl(&server, &proxy, &remote(proxy.url_with("anna", "secret")));
        assert_eq!(output.stdout, b"ok", "{kind:?}: {output:?}");
        assert_eq!(proxy.connections(), 1);
    }
}

#[test]
fn kubectl_goes_through_the_proxy_of_its_kubeconfig() {
    for kind in [Kind::Http, Kind::Socks5] {
        let server = server();
        let proxy = Proxy::setup(kind).start().unwrap();
        let kubectl = Kubectl::new(&server, &json!({ "token": "good" }));
        let path = kubectl.home().join("config");
        let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config["clusters"][0]["cluster"]["proxy-url"] = proxy.url().into();
        fs::write(&path, config.to_string()).unwrap();
        assert_eq!(kubectl.prints(&["get", "--raw", "/healthz"]), "ok");
        assert!(proxy.connections() > 0);
    }
}

#[test]
fn a_target_that_is_not_there_is_an_error() {
    for kind in [Kind::Http, Kind::Socks5] {
        let server = server();
        let gone = { Server::setup().start().unwrap().address() };
        let proxy = Proxy::setup(kind).name(NAME, gone).start().unwrap();
        let url = proxy.url().replace("socks5:", "socks5h:");
        assert!(!curl(&server, &proxy, &url).status.success());
        assert_eq!(proxy.connections(), 0);
    }
}

#[test]
fn nonsense_gets_no_tunnel() {
    use std::io::{Read, Write};
    let proxy = Proxy::setup(Kind::Http).start().unwrap();
    for (sent, answer) in [
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
        ("CONNECT nowhere HTTP/1.1\r\n\r\n", "HTTP/1.1 400"),
        ("\r\n\r\n", "HTTP/1.1 405"),
    ] {
        let mut stream = std::net::TcpStream::connect(proxy.address()).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with(answer), "{sent:?}: {text:?}");
    }
}
