//! The kubeconfig is wrong.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use super::{
    super::{
        broken::{Broken, Fix},
        scene::{Scene, TOKEN, exec, exec_in},
    },
    NONE,
};
use crate::stage::gives;

pub(crate) fn the_current_context_does_not_exist() -> Broken {
    Broken {
        step: "entry",
        cause: "names the context `ctx-bleu`, which does not exist",
        build: |scene| scene.replace("current-context: ctx-blue", "current-context: ctx-bleu"),
        ..NONE
    }
}

pub(crate) fn a_context_is_misspelt_on_the_command_line() -> Broken {
    Broken {
        step: "entry",
        cause: "there is no context `ctx-bleu`",
        words: "--context ctx-bleu",
        ..NONE
    }
}

pub(crate) fn the_context_names_a_user_that_does_not_exist() -> Broken {
    Broken {
        step: "entry",
        cause: "names the user `us-rde`, which does not exist",
        build: |scene| scene.replace("    user: us-red", "    user: us-rde"),
        ..NONE
    }
}

pub(crate) fn kubeconfig_variable_names_a_missing_file() -> Broken {
    Broken {
        step: "entry",
        cause: "is missing",
        build: |scene| scene.set("KUBECONFIG", "/nowhere/config"),
        ..NONE
    }
}

pub(crate) fn the_kubeconfig_has_a_tab() -> Broken {
    Broken {
        step: "kubeconfig",
        cause: "a tab stands",
        build: |scene| scene.replace("    cluster: cl-green", "\tcluster: cl-green"),
        ..NONE
    }
}

pub(crate) fn the_interactive_mode_is_missing() -> Broken {
    Broken {
        pain: 22,
        step: "entry",
        cause: "`exec.interactiveMode` is missing",
        build: |scene| scene.user(&exec_in("v1", "corp-login", "")),
        ..NONE
    }
}

pub(crate) fn the_scheme_of_the_server_is_missing() -> Broken {
    Broken {
        step: "entry",
        cause: "has no scheme",
        build: |scene| scene.replace("server: https://", "server: "),
        ..NONE
    }
}

pub(crate) fn a_token_and_a_user_name_are_both_set() -> Broken {
    Broken {
        pain: 49,
        step: "entry",
        cause: "`token` and `username` are both set",
        build: |scene| scene.user(&format!("    token: {TOKEN}\n    username: anna-basic")),
        ..NONE
    }
}

fn certificate(scene: &Scene, until: SystemTime) {
    let from = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    let request = scene.server.authority().client("carla").from(from).until(until);
    let issued = request.issue().unwrap();
    let certificate = scene.stage.write("client.pem", issued.certificate_pem());
    let key = scene.stage.write("client-key.pem", issued.key_pem());
    scene.user(&format!(
        "    client-certificate: {}\n    client-key: {}",
        certificate.display(),
        key.display()
    ));
}

pub(crate) fn the_client_certificate_has_expired() -> Broken {
    Broken {
        pain: 12,
        step: "answer",
        cause: "the certificate had already expired at 2017-07-14T04:40:00Z",
        build: |scene| {
            let end = Duration::from_secs(1_500_007_200);
            certificate(scene, SystemTime::UNIX_EPOCH + end);
        },
        fix: Fix::Hand("", |scene| {
            certificate(scene, SystemTime::now() + Duration::from_secs(3600));
        }),
        ..NONE
    }
}

pub(crate) fn an_authority_and_insecure_are_both_set() -> Broken {
    Broken {
        step: "entry",
        cause: "`insecure-skip-tls-verify` are both set",
        build: |scene| {
            let line = "    insecure-skip-tls-verify: true\n";
            scene.write(&scene.cluster(line), &exec("corp-login", ""));
        },
        ..NONE
    }
}

pub(crate) fn the_token_file_is_missing() -> Broken {
    Broken {
        step: "entry",
        cause: "no such file or directory",
        build: |scene| {
            let file = scene.stage.path("token");
            scene.user(&format!("    tokenFile: {}", file.display()));
        },
        fix: Fix::Hand("", |scene| drop(scene.stage.write("token", TOKEN))),
        ..NONE
    }
}

pub(crate) fn the_auth_provider_was_removed() -> Broken {
    Broken {
        pain: 33,
        step: "entry",
        cause: "`gcp` was removed from Kubernetes",
        build: |scene| {
            scene.user(
                "    auth-provider:\n      name: gcp\n      config: {access-token: MARKED-gcp}",
            );
        },
        fix: Fix::Hand("gke-gcloud-auth-plugin", |scene| {
            scene.stage.plugin("gke-gcloud-auth-plugin", &gives(TOKEN));
            scene.user(&exec("gke-gcloud-auth-plugin", ""));
        }),
        ..NONE
    }
}

pub(crate) fn the_wrapper_was_uninstalled() -> Broken {
    Broken {
        step: "wrap",
        cause: "which does not exist",
        build: |scene| {
            scene.stage.plugin("keyward-exec", "shift; exec \"$@\"");
            let wrapper = scene.stage.path("bin/keyward-exec");
            scene.stage.run(&format!("wrap --wrapper {}", wrapper.display())).good();
            fs::remove_file(wrapper).unwrap();
        },
        ..NONE
    }
}
