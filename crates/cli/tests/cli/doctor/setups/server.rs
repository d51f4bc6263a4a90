//! The way to the server is wrong, or its clock.

use std::net::TcpListener;

use keyward_testing::{
    authority::Authority,
    proxy::{Kind, Proxy},
    server::{Server, User},
};

use super::{
    super::{
        broken::{Broken, Fix},
        scene::{TOKEN, exec},
    },
    NONE,
};

pub(crate) fn the_clock_is_an_hour_off() -> Broken {
    Broken {
        pain: 57,
        step: "clock",
        cause: "behind the server's",
        build: |scene| scene.server.faults().skew_date(3600),
        fix: Fix::Hand("timedatectl", |scene| scene.server.faults().skew_date(0)),
        ..NONE
    }
}

pub(crate) fn nothing_listens_at_the_address() -> Broken {
    Broken {
        step: "tcp",
        cause: "onnection refused",
        build: |scene| {
            // Bound but not listening, so nobody else gets the port.
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            drop(listener);
            scene.replace(&scene.server.url(), &format!("https://{address}"));
        },
        fix: Fix::Hand("kubectl config set-cluster cl-green --server=", |scene| {
            scene.user(&exec("corp-login", ""));
        }),
        ..NONE
    }
}

pub(crate) fn the_name_of_the_server_cannot_be_resolved() -> Broken {
    Broken {
        step: "dns",
        cause: "cannot be resolved",
        build: |scene| {
            // No resolver has to be asked for a name that is too long.
            let name = format!("https://{}.test:6443", "api".repeat(30));
            scene.replace(&scene.server.url(), &name);
        },
        fix: Fix::Hand("kubectl config set-cluster cl-green --server=", |scene| {
            scene.user(&exec("corp-login", ""));
        }),
        ..NONE
    }
}

pub(crate) fn the_proxy_is_gone() -> Broken {
    Broken {
        pain: 34,
        step: "proxy",
        cause: "onnection refused",
        build: |scene| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            drop(listener);
            let proxy = format!("    proxy-url: http://me:MARKED-password@{address}\n");
            scene.write(&scene.cluster(&proxy), &exec("corp-login", ""));
        },
        ..NONE
    }
}

pub(crate) fn the_proxy_wants_another_password() -> Broken {
    Broken {
        pain: 34,
        step: "proxy",
        cause: "wants another user name and password",
        build: |scene| {
            let proxy = Proxy::setup(Kind::Http).password("me", "MARKED-right").start().unwrap();
            let line = format!("    proxy-url: {}\n", proxy.url_with("me", "MARKED-wrong"));
            scene.write(&scene.cluster(&line), &exec("corp-login", ""));
            scene.kept.push(Box::new(proxy));
        },
        fix: Fix::Hand("correct the login in `proxy-url`", |scene| {
            scene.replace("MARKED-wrong", "MARKED-right");
        }),
        ..NONE
    }
}

pub(crate) fn another_authority_signed_the_certificate() -> Broken {
    Broken {
        step: "tls",
        cause: "signed by none of the trusted authorities",
        build: |scene| {
            let other = Authority::new("other").unwrap();
            let file = scene.stage.write("other.pem", other.pem());
            let cluster = format!(
                "    server: {}\n    certificate-authority: {}",
                scene.server.url(),
                file.display()
            );
            scene.write(&cluster, &exec("corp-login", ""));
        },
        fix: Fix::Hand("--embed-certs", |scene| {
            let right = scene.server.authority().pem().to_owned();
            scene.stage.write("other.pem", &right);
        }),
        ..NONE
    }
}

pub(crate) fn the_certificate_is_for_another_name() -> Broken {
    Broken {
        step: "tls",
        cause: "the server's certificate is not for `127.0.0.1`",
        build: |scene| {
            let authority = scene.server.authority().clone();
            let setup = Server::setup().authority(authority);
            scene.server = setup.names(&["api.corp.example"]).start().unwrap();
            scene.server.users().token(TOKEN, User::new("anna"));
            scene.user(&exec("corp-login", ""));
        },
        ..NONE
    }
}

pub(crate) fn the_proxy_of_the_environment_is_gone() -> Broken {
    Broken {
        pain: 34,
        step: "proxy",
        cause: "onnection refused",
        build: |scene| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            drop(listener);
            scene.set("HTTPS_PROXY", format!("http://me:MARKED-password@{address}"));
            // The same server, at an address that is no loopback address: those need no proxy.
            let name = "    tls-server-name: localhost\n";
            let cluster = scene.cluster(name).replace("//127.0.0.1", "//0.0.0.0");
            scene.write(&cluster, &exec("corp-login", ""));
        },
        ..NONE
    }
}
