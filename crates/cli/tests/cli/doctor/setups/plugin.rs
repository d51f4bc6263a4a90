//! The plugin, its policy or its state is wrong.

use std::{fs, net::TcpListener};

use super::{
    super::{
        broken::{Broken, Fix},
        scene::{TOKEN, exec, exec_in},
    },
    NONE, mode,
};
use crate::stage::{gives, gives_in};

pub(crate) fn the_plugin_is_off_the_search_path() -> Broken {
    Broken {
        pain: 7,
        step: "program",
        cause: ".krew/bin",
        build: |scene| {
            let krew = scene.directory("home/.krew/bin");
            fs::rename(scene.stage.path("bin/corp-login"), krew.join("corp-login")).unwrap();
        },
        ..NONE
    }
}

pub(crate) fn the_plugin_is_not_installed() -> Broken {
    Broken {
        pain: 10,
        step: "program",
        cause: "plugin `corp-login` was not found",
        build: |scene| {
            scene.user(&exec("corp-login", "      installHint: apt install corp-login"));
            fs::remove_file(scene.stage.path("bin/corp-login")).unwrap();
        },
        fix: Fix::Hand("apt install corp-login", |scene| {
            scene.stage.plugin("corp-login", &gives(TOKEN));
        }),
        ..NONE
    }
}

pub(crate) fn the_plugin_is_not_executable() -> Broken {
    Broken {
        step: "program",
        cause: "`corp-login` was not found",
        build: |scene| mode(scene, "bin/corp-login", 0o644),
        ..NONE
    }
}

pub(crate) fn the_plugin_can_be_changed_by_everybody() -> Broken {
    Broken {
        pain: 15,
        step: "program",
        cause: "others could change it",
        build: |scene| mode(scene, "bin/corp-login", 0o777),
        ..NONE
    }
}

const KUBERC: &str = "apiVersion: kubectl.config.k8s.io/v1beta1
kind: Preference
credentialPluginPolicy: Allowlist
credentialPluginAllowlist:
- name: other-login
";

pub(crate) fn the_kuberc_does_not_list_the_plugin() -> Broken {
    Broken {
        pain: 15,
        step: "policy",
        cause: "not in the allowlist",
        build: |scene| drop(scene.stage.write("home/.kube/kuberc", KUBERC)),
        fix: Fix::Hand("add `corp-login` to `credentialPluginAllowlist`", |scene| {
            let more = format!("{KUBERC}- name: corp-login\n");
            scene.stage.write("home/.kube/kuberc", &more);
        }),
        ..NONE
    }
}

/// `aws`, which needs a session, and renews it if somebody logs in under the profile `sandbox-dev`.
const AWS: &str = r#"cache="$HOME/.aws/sso/cache/session.json"
if [ "$*" = "sso login --profile sandbox-dev" ]; then
    sed -i s/2020/2099/ "$cache"
elif grep -q 2099 "$cache"; then
    TOKEN
else
    echo 'Error when retrieving token from sso: Token has expired and refresh failed' >&2
    exit 255
fi"#;

pub(crate) fn the_sso_session_has_expired() -> Broken {
    Broken {
        pain: 9,
        step: "run",
        cause: "the AWS SSO session expired at 2020-01-01T00:00:00Z",
        build: |scene| {
            scene.stage.plugin("aws", &AWS.replace("TOKEN", &gives(TOKEN)));
            scene.directory("home/.aws/sso/cache");
            scene.stage.write(
                "home/.aws/sso/cache/session.json",
                r#"{"startUrl":"https://corp.example","accessToken":"MARKED-session","expiresAt":"2020-01-01T00:00:00Z"}"#,
            );
            scene.user(&exec("aws", "      args: [eks, get-token, --cluster-name, c]\n").replace(
                "      env:\n",
                "      env:\n      - name: AWS_PROFILE\n        value: sandbox-dev\n",
            ));
        },
        ..NONE
    }
}

pub(crate) fn the_plugin_prints_a_line_before_its_answer() -> Broken {
    Broken {
        pain: 50,
        step: "answer",
        cause: "answered something that is not an `ExecCredential`",
        build: |scene| {
            scene.stage.plugin("corp-login", &format!("echo MARKED-talk; {}", gives(TOKEN)));
        },
        fix: Fix::Hand("all else to stderr", |scene| {
            scene.stage.plugin("corp-login", &format!("echo talk >&2; {}", gives(TOKEN)));
        }),
        ..NONE
    }
}

pub(crate) fn the_plugin_answers_in_another_version() -> Broken {
    Broken {
        pain: 22,
        step: "answer",
        cause: "answered in another version than it was asked in",
        build: |scene| drop(scene.stage.plugin("corp-login", &gives_in("v1beta1", TOKEN))),
        ..NONE
    }
}

pub(crate) fn the_plugin_hangs() -> Broken {
    Broken {
        pain: 3,
        step: "run",
        cause: "corp-login",
        words: "--plugin-timeout 300ms",
        build: |scene| {
            let script = format!("[ -e $STAGE/vpn ] || sleep 60; {}", gives(TOKEN));
            scene.stage.plugin("corp-login", &script);
        },
        fix: Fix::Hand("--plugin-timeout", |scene| drop(scene.stage.write("vpn", ""))),
    }
}

pub(crate) fn the_plugin_returns_an_expired_token() -> Broken {
    Broken {
        pain: 57,
        step: "answer",
        cause: "had already expired at 2020-01-01T00:00:00Z",
        build: |scene| {
            let old = gives(TOKEN)
                .replace(r#""token""#, r#""expirationTimestamp":"2020-01-01T00:00:00Z","token""#);
            let script = format!("if [ -e $STAGE/fresh ]; then {}; else {old}; fi", gives(TOKEN));
            scene.stage.plugin("corp-login", &script);
        },
        fix: Fix::Hand("log in again", |scene| drop(scene.stage.write("fresh", ""))),
        ..NONE
    }
}

pub(crate) fn the_plugin_keeps_the_token_of_another_account() -> Broken {
    Broken {
        pain: 18,
        step: "response",
        cause: "the plugin keeps an old token in a file",
        build: |scene| {
            let script = format!(
                "cache=$HOME/.kube/gke_gcloud_auth_plugin_cache\n\
                 if [ -e $cache ]; then {}; else {}; fi",
                gives("MARKED-old"),
                gives(TOKEN)
            );
            scene.stage.plugin("gke-gcloud-auth-plugin", &script);
            scene.stage.write("home/.kube/gke_gcloud_auth_plugin_cache", "MARKED-old");
            scene.user(&exec("gke-gcloud-auth-plugin", ""));
        },
        ..NONE
    }
}

const OIDC: &str = "--oidc-issuer-url=https://idp.corp.example";

pub(crate) fn the_port_for_the_browser_is_in_use() -> Broken {
    Broken {
        pain: 5,
        step: "run",
        cause: "where it waits for the browser, is in use",
        build: |scene| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            scene.stage.write("busy", "");
            let script = format!(
                "[ -e $STAGE/busy ] && {{ echo 'could not start a local server' >&2; exit 1; }}; {}",
                gives(TOKEN)
            );
            scene.stage.plugin("kubelogin", &script);
            let args = format!("[get-token, '{OIDC}', --listen-address=127.0.0.1:{port}]");
            scene.user(&exec("kubelogin", &format!("      args: {args}\n")));
            scene.kept.push(Box::new(listener));
        },
        fix: Fix::Hand("kill ", |scene| {
            scene.kept.clear();
            fs::remove_file(scene.stage.path("busy")).unwrap();
        }),
        ..NONE
    }
}

pub(crate) fn the_other_kubelogin_is_installed() -> Broken {
    Broken {
        pain: 14,
        step: "run",
        cause: "this `kubelogin` is Azure's",
        build: |scene| {
            let other = "echo 'Error: unknown flag: --oidc-issuer-url' >&2; exit 1";
            scene.stage.plugin("kubelogin", other);
            scene.user(&exec("kubelogin", &format!("      args: [get-token, '{OIDC}']\n")));
        },
        fix: Fix::Hand("install int128's", |scene| {
            scene.stage.plugin("kubelogin", &gives(TOKEN));
        }),
        ..NONE
    }
}

pub(crate) fn the_plugin_needs_a_terminal() -> Broken {
    Broken {
        pain: 8,
        step: "run",
        cause: "standard input is not a terminal",
        build: |scene| {
            scene.user(&exec_in("v1", "corp-login", "      interactiveMode: Always\n"));
        },
        fix: Fix::Hand("--exec-interactive-mode=IfAvailable", |scene| {
            scene.replace("interactiveMode: Always", "interactiveMode: IfAvailable");
        }),
        ..NONE
    }
}

pub(crate) fn the_cluster_is_too_large_for_the_environment() -> Broken {
    Broken {
        pain: 30,
        step: "run",
        cause: "corp-login",
        build: |scene| {
            let bundle = scene.stage.path("bundle.pem");
            fs::write(&bundle, scene.server.authority().pem().repeat(300)).unwrap();
            let cluster = format!(
                "    server: {}\n    certificate-authority: {}",
                scene.server.url(),
                bundle.display()
            );
            scene.write(&cluster, &exec("corp-login", "      provideClusterInfo: true\n"));
        },
        ..NONE
    }
}
