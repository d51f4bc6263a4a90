//! Proxies on the way.

use std::{sync::Arc, time::Duration};

use keyward::{Client, Kind as Why};
use keyward_process::surroundings::{Fixed, Surroundings};
use keyward_testing::{
    authority::Authority,
    proxy::{Kind, Proxy},
    server::{Server, User},
};
use serde_json::json;

use crate::support::{Desk, Plugin, kubeconfig, status, within};

fn scene() -> (Server, Plugin, Desk) {
    let server = Server::setup().start().unwrap();
    server.users().token("one", User::new("anna"));
    let plugin = Plugin::new();
    plugin.answer(Some("one"), None);
    (server, plugin, Desk::new())
}

/// The error of a request through this proxy, or its status.
async fn through(url: &str) -> Result<u16, keyward::Error> {
    let (server, plugin, desk) = scene();
    let cluster = json!({ "proxy-url": url });
    let client = desk.client_of(&kubeconfig(&server, &plugin.user(), &cluster), Client::builder());
    within(client.get("/healthz")).await.map(|response| response.status().as_u16())
}

#[tokio::test]
async fn every_kind_of_proxy_is_gone_through() {
    for kind in [Kind::Http, Kind::Socks5] {
        let proxy = Proxy::setup(kind).start().unwrap();
        let (server, plugin, desk) = scene();
        let cluster = json!({ "proxy-url": proxy.url() });
        let kubeconfig = kubeconfig(&server, &plugin.user(), &cluster);
        let client = desk.client_of(&kubeconfig, Client::builder());
        assert_eq!(status(&client, "/healthz").await, 200);
        assert_eq!(proxy.connections(), 1);
        assert_eq!(proxy.targets(), [server.address().to_string()]);
    }
}

#[tokio::test]
async fn a_proxy_reached_by_tls_is_checked_against_the_clusters_authority() {
    let authority = Arc::new(Authority::new("one for both").unwrap());
    let server = Server::setup().authority(authority.clone()).start().unwrap();
    server.users().token("one", User::new("anna"));
    let plugin = Plugin::new();
    plugin.answer(Some("one"), None);
    let reach = async |proxy: &Proxy| {
        let cluster = json!({ "proxy-url": proxy.url() });
        let kubeconfig = kubeconfig(&server, &plugin.user(), &cluster);
        let client = Desk::new().client_of(&kubeconfig, Client::builder());
        within(client.get("/healthz")).await
    };
    let proxy = Proxy::setup(Kind::Https).authority(authority).start().unwrap();
    assert_eq!(reach(&proxy).await.unwrap().status(), 200);
    assert_eq!(proxy.connections(), 1);

    let stranger = Proxy::setup(Kind::Https).start().unwrap();
    assert_eq!(reach(&stranger).await.unwrap_err().kind(), Why::Connect);
    assert_eq!(stranger.connections(), 0);
}

#[tokio::test]
async fn a_proxy_that_wants_a_password_gets_it_decoded() {
    for kind in [Kind::Http, Kind::Socks5] {
        let proxy = Proxy::setup(kind).password("me", "p@ss:word").start().unwrap();
        assert_eq!(through(&proxy.url_with("me", "p%40ss%3Aword")).await.unwrap(), 200);

        for url in [proxy.url(), proxy.url_with("me", "wrong")] {
            let error = through(&url).await.unwrap_err();
            assert_eq!(error.kind(), Why::Connect);
            assert!(error.to_string().contains("user name and password"), "{error}");
            assert!(!format!("{error:?}").contains("wrong"));
        }
    }
}

#[tokio::test]
async fn a_name_that_only_the_proxy_knows_is_resolved_there() {
    for kind in [Kind::Http, Kind::Socks5] {
        let (server, plugin, desk) = scene();
        let name = "api.nowhere.invalid";
        let proxy = Proxy::setup(kind).name(name, server.address()).start().unwrap();
        let cluster = json!({
            "proxy-url": proxy.url(),
            "server": format!("https://{name}:6443"),
            "tls-server-name": "localhost",
        });
        let kubeconfig = kubeconfig(&server, &plugin.user(), &cluster);
        let client = desk.client_of(&kubeconfig, Client::builder());
        assert_eq!(status(&client, "/healthz").await, 200);
        assert_eq!(proxy.targets(), [format!("{name}:6443")]);
    }
}

#[tokio::test]
async fn the_environment_names_a_proxy_where_the_kubeconfig_does_not() {
    let (server, plugin, desk) = scene();
    let name = "api.nowhere.invalid";
    let proxy = Proxy::setup(Kind::Http).name(name, server.address()).start().unwrap();
    let cluster = json!({
        "server": format!("https://{name}"),
        "tls-server-name": "localhost",
    });
    let kubeconfig = kubeconfig(&server, &plugin.user(), &cluster);
    let surrounded = |vars: &[(&str, &str)]| {
        let vars = vars.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let here = Surroundings::fixed(Fixed { vars, ..Fixed::default() });
        desk.client_of(&kubeconfig, Client::builder().surroundings(here))
    };
    let client = surrounded(&[("HTTPS_PROXY", &proxy.url())]);
    assert_eq!(status(&client, "/healthz").await, 200);
    assert_eq!(proxy.connections(), 1);

    let direct = surrounded(&[("HTTPS_PROXY", &proxy.url()), ("NO_PROXY", "nowhere.invalid")]);
    assert_eq!(within(direct.get("/healthz")).await.unwrap_err().kind(), Why::Connect);
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named_without_its_password() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = through(&format!("http://me:hush@{closed}")).await.unwrap_err();
    assert_eq!(error.kind(), Why::Connect);
    let message = error.to_string();
    assert!(message.starts_with(&format!("proxy `http://{closed}` on the way to")), "{message}");
    assert!(message.ends_with("could not be reached"), "{message}");
    assert!(!format!("{error} {error:?}").contains("hush"));
}

#[tokio::test]
async fn a_proxy_that_says_nothing_is_named_and_not_the_server() {
    // Connections are taken by the system, and nobody ever reads them.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap();
    for scheme in ["http", "https", "socks5"] {
        let (server, plugin, desk) = scene();
        let cluster = json!({ "proxy-url": format!("{scheme}://me:hush@{address}") });
        let builder = Client::builder().connect_timeout(Duration::from_millis(300));
        let client = desk.client_of(&kubeconfig(&server, &plugin.user(), &cluster), builder);
        let error = within(client.get("/healthz")).await.unwrap_err();
        assert_eq!(error.kind(), Why::Connect);
        let message = error.to_string();
        let named = format!("proxy `{scheme}://{address}` on the way to");
        assert!(message.starts_with(&named), "{message}");
        assert!(message.ends_with("did not answer within 300ms"), "{message}");
        assert!(!format!("{error} {error:?}").contains("hush"));
    }
}
