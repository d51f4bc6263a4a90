//! Logins for pulling images, from a provider whose configuration changes.

use std::{fs, os::unix::fs::symlink, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::join_all;
use keyward_host::{NoopObserver, ReloadPace};
use keyward_image::{Config, Images, Lookup, Reading, ReloadingConfig, Settings};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use serde_json::json;

use super::{Failure, Promise, Report, Scene, Watch, count, seen_within};
use crate::commands::demo::scene::{IMAGES, whoami_with};

const CROWD: usize = 50;
const REGISTRY: &str = "registry.demo:5000";
const PROVIDER: &str = "keyward";
const LIMIT: Duration = Duration::from_secs(5);
const OFF: &str =
    "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: []\n";

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    let node = Node::new(scene)?;
    // Separate lookups share nothing.
    let apart = if scene.breaks(Promise::Images) { 3 } else { 1 };
    let askers: Vec<_> = (0..apart).map(|_| node.images()).collect();
    let before = scene.issuer.runs(IMAGES);
    let config = node.config()?;
    let watch = Watch::start();
    let crowd = (0..CROWD).map(|number| {
        let image = format!("{REGISTRY}/team/image-{number}:1.0");
        askers[number % apart].begin(&config, image, None)
    });
    let found = join_all(crowd).await;
    let took = watch.millis();
    let runs = scene.issuer.runs(IMAGES) - before;
    let passwords: Vec<_> =
        found.iter().filter_map(|found| password(found.as_ref().ok()?)).collect();
    let good = passwords.len();
    let who = match passwords.first() {
        Some(password) => whoami_with(scene, password).await?,
        None => "nobody".to_owned(),
    };
    report.see(
        Promise::Images,
        good == CROWD && runs == 1 && who == IMAGES,
        format!(
            "{good} of {CROWD} images at once got a login within {took} ms, with {}; the server authenticates it as `{who}`",
            count(runs, "provider run"),
        ),
        json!({ "images": CROWD, "logins": good, "milliseconds": took, "providerRuns": runs, "user": who }),
    )?;
    switch(scene, &node, &askers[0], report).await
}

/// Switches the provider off, breaks the file, and switches it on again, by the file alone.
async fn switch(
    scene: &Scene,
    node: &Node,
    images: &Arc<Images>,
    report: &mut Report,
) -> Result<(), Failure> {
    let before = scene.issuer.runs(IMAGES);
    if !scene.breaks(Promise::Switch) {
        node.write(OFF)?;
    }
    let off = node.until(images, false).await?;
    node.write("providers: [half")?;
    let broken = node.until_broken().await?;
    let still_off = node.has_login(images).await? != off;
    node.write(&node.on)?;
    let on = node.until(images, true).await?;
    let more = scene.issuer.runs(IMAGES) - before;
    let word = |seen: bool, yes: &'static str, no: &'static str| if seen { yes } else { no };
    report.see(
        Promise::Switch,
        off && broken && still_off && on && more == 0,
        format!(
            "an empty list left the provider {}, a broken file was {}, the old list left it {}, with {}",
            word(off, "off", "on"),
            word(broken && still_off, "ignored", "not ignored"),
            word(on, "on", "off"),
            count(more, "more run"),
        ),
        json!({ "off": off, "brokenIgnored": broken && still_off, "on": on, "providerRuns": more }),
    )
}

/// A node's provider configuration, in the scene's directory.
struct Node {
    folder: PathBuf,
    path: PathBuf,
    on: String,
    follow: ReloadingConfig,
}

impl Node {
    fn new(scene: &Scene) -> Result<Self, Failure> {
        let bad = Failure::of("the providers could not be set up");
        let folder = scene.folder().join("providers");
        fs::create_dir_all(&folder).map_err(&bad)?;
        let link = folder.join(PROVIDER);
        if !link.exists() {
            symlink(&scene.program, link).map_err(&bad)?;
        }
        let socket = scene.socket();
        let on = json!({
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": [{
                "name": PROVIDER,
                "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
                "matchImages": ["*.demo:5000"],
                "defaultCacheDuration": "10m",
                "args": ["demo-plugin", "--images", "--socket", socket, "--account", IMAGES],
                "env": [{ "name": "KEYWARD_CACHE_KEY_TYPE", "value": "Registry" }],
            }],
        })
        .to_string();
        let path = scene.folder().join("providers.json");
        fs::write(&path, &on).map_err(bad)?;
        let pace =
            ReloadPace { every: Duration::from_millis(20), confirm: Duration::from_millis(20) };
        let follow = ReloadingConfig::new(
            Reading::Kubelet,
            &path,
            pace,
            Arc::new(SystemClock),
            Arc::new(NoopObserver),
        );
        Ok(Self { folder, path, on, follow })
    }

    fn images(&self) -> Arc<Images> {
        let settings = Settings { bin_dir: Some(self.folder.clone()), ..Settings::default() };
        let (clock, nobody) = (Arc::new(SystemClock), Arc::new(NoopObserver));
        Arc::new(Images::new(settings, Surroundings::process(), clock, nobody))
    }

    /// Replaces the file.
    fn write(&self, text: &str) -> Result<(), Failure> {
        let new = self.path.with_extension("new");
        let done = fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path));
        done.map_err(Failure::of("cannot write the configuration"))
    }

    /// The configuration in force. The report mentions a broken file, not the log.
    fn config(&self) -> Result<Arc<Config>, Failure> {
        let silence = tracing::subscriber::NoSubscriber::default();
        Ok(tracing::subscriber::with_default(silence, || self.follow.config())?)
    }

    async fn has_login(&self, images: &Arc<Images>) -> Result<bool, Failure> {
        let config = self.config()?;
        let found = images.begin(&config, format!("{REGISTRY}/team/app"), None).await?;
        Ok(!found.logins.is_empty())
    }

    /// Whether a login appears, or disappears, within the limit.
    async fn until(&self, images: &Arc<Images>, wanted: bool) -> Result<bool, Failure> {
        seen_within(LIMIT, async || Ok(self.has_login(images).await? == wanted)).await
    }

    /// Whether a broken file is noticed within the limit.
    async fn until_broken(&self) -> Result<bool, Failure> {
        seen_within(LIMIT, async || {
            self.config()?;
            Ok(self.follow.faults().is_some())
        })
        .await
    }
}

fn password(found: &Lookup) -> Option<String> {
    Some(found.logins.first()?.login.password.expose().to_owned())
}
