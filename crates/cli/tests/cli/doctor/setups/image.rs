//! An image gets no login.

use super::{
    super::{
        broken::{Broken, Fix},
        scene::Scene,
    },
    NONE, mode,
};
use crate::image::{config, provider};

const IMAGE: &str =
    "--image registry.corp.example/team/app:1 --config providers.yaml --bin-dir bin";

/// A provider `corp-provider` with this pattern, whose answer has this registry.
fn image(scene: &Scene, pattern: &str, registry: &str) {
    scene.stage.write("providers.yaml", &config(&provider("corp-provider", pattern, "")));
    let answer = format!(
        r#"{{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{{"{registry}":{{"username":"puller","password":"MARKED-pass"}}}}}}"#
    );
    scene.stage.plugin("corp-provider", &format!("cat >/dev/null; echo '{answer}'"));
}

const REGISTRY: &str = "registry.corp.example";

pub(crate) fn no_image_provider_matches() -> Broken {
    Broken {
        pain: 11,
        step: "match",
        cause: "no provider matches `registry.corp.example/team/app`",
        words: IMAGE,
        build: |scene| image(scene, "'*.dkr.ecr.amazonaws.com'", REGISTRY),
        fix: Fix::Hand("add `registry.corp.example` to `matchImages`", |scene| {
            image(scene, REGISTRY, REGISTRY);
        }),
    }
}

pub(crate) fn the_image_provider_is_not_executable() -> Broken {
    Broken {
        pain: 29,
        step: "program",
        cause: "plugin `corp-provider` may not be executed",
        words: IMAGE,
        build: |scene| {
            image(scene, REGISTRY, REGISTRY);
            mode(scene, "bin/corp-provider", 0o644);
        },
        ..NONE
    }
}

pub(crate) fn the_image_provider_fails() -> Broken {
    Broken {
        pain: 11,
        step: "run",
        cause: "plugin `corp-provider` failed with exit code 3",
        words: IMAGE,
        build: |scene| {
            image(scene, REGISTRY, REGISTRY);
            scene.stage.plugin("corp-provider", "echo 'no instance metadata' >&2; exit 3");
        },
        fix: Fix::Hand("do what the provider's message says", |scene| {
            image(scene, REGISTRY, REGISTRY);
        }),
    }
}

pub(crate) fn the_image_provider_answers_for_another_registry() -> Broken {
    Broken {
        pain: 19,
        step: "login",
        cause: "no login for `registry.corp.example/team/app`, only for `mirror.corp.example`",
        words: IMAGE,
        build: |scene| image(scene, REGISTRY, "mirror.corp.example"),
        fix: Fix::Hand("the registry of the image", |scene| image(scene, REGISTRY, REGISTRY)),
    }
}
