//! Merging kubeconfig files: properties that hold for any of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use keyward_host::{
    Kubeconfig,
    kubeconfig::{Cluster, Named},
};
use proptest::{collection::vec, prelude::*};

/// A config with some of a few clusters, each telling who made it, and perhaps a current context.
fn config() -> impl Strategy<Value = Kubeconfig> {
    let clusters = vec((0..6_u8, "[a-z]{1,8}"), 0..6);
    (clusters, "[xy]?").prop_map(|(clusters, current_context)| {
        let mut config = Kubeconfig { current_context, ..Kubeconfig::default() };
        for (name, server) in clusters {
            let name = format!("c{name}");
            if config.clusters.iter().all(|known| known.name != name) {
                let value = Cluster { server, ..Cluster::default() };
                config.clusters.push(Named::new(name, value));
            }
        }
        config
    })
}

/// What can be told apart about a config.
fn seen(config: &Kubeconfig) -> (String, Vec<(String, String)>) {
    let clusters = config.clusters.iter();
    let clusters = clusters.map(|c| (c.name.clone(), c.value.server.clone())).collect();
    (config.current_context.clone(), clusters)
}

proptest! {
    #[test]
    fn the_first_to_define_something_wins_whole(configs in vec(config(), 0..5)) {
        let merged = Kubeconfig::merge(configs.clone());
        for cluster in &merged.clusters {
            let mut all = configs.iter().flat_map(|config| &config.clusters);
            let first = all.find(|known| known.name == cluster.name).unwrap();
            prop_assert_eq!(&first.value.server, &cluster.value.server);
        }
        let mut contexts = configs.iter().map(|config| &config.current_context);
        let first = contexts.find(|context| !context.is_empty()).cloned();
        prop_assert_eq!(first.unwrap_or_default(), merged.current_context);
    }

    #[test]
    fn nothing_is_lost_and_nothing_comes_twice(configs in vec(config(), 0..5)) {
        let merged = Kubeconfig::merge(configs.clone());
        let mut names: Vec<_> = merged.clusters.iter().map(|c| c.name.clone()).collect();
        let mut all: Vec<_> =
            configs.iter().flat_map(|c| &c.clusters).map(|c| c.name.clone()).collect();
        names.sort();
        all.sort();
        all.dedup();
        prop_assert_eq!(names, all);
    }

    #[test]
    fn a_config_merged_with_itself_is_itself(config in config()) {
        let merged = Kubeconfig::merge([config.clone(), config.clone()]);
        prop_assert_eq!(seen(&merged), seen(&config));
    }

    #[test]
    fn it_does_not_matter_which_two_are_merged_first(a in config(), b in config(), c in config()) {
        let left = Kubeconfig::merge([Kubeconfig::merge([a.clone(), b.clone()]), c.clone()]);
        let right = Kubeconfig::merge([a.clone(), Kubeconfig::merge([b.clone(), c.clone()])]);
        prop_assert_eq!(seen(&left), seen(&right));
        prop_assert_eq!(seen(&left), seen(&Kubeconfig::merge([a, b, c])));
    }
}
