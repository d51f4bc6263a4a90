//! Credentials that change while a client lives.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use http_body_util::BodyExt;
use keyward::{Body, Client};
use keyward_host::{
    Kubeconfig, NoopObserver, Overrides, PlanSettings, Sources, Target, rules::Rules,
};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use keyward_testing::script::Script;
use serde_json::{Value, json};

use super::{same, users};
use crate::{Outcome, audit, cluster::Cluster, config};

/// How many credentials a client must have used up before it is believed.
const ROTATIONS: usize = 4;
/// What a plugin says its answers live, in seconds.
pub const LIFETIME: u32 = 6;
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(100);

pub async fn tokens(cluster: &Cluster) -> Outcome<String> {
    let (user, runs) = users::plugin(cluster, "token", "builder", LIFETIME)?;
    rotate(cluster, &user, &runs, "system:serviceaccount:default:builder").await
}

pub async fn certificates(cluster: &Cluster) -> Outcome<String> {
    let (user, runs) = users::plugin(cluster, "certificate", "celia", LIFETIME)?;
    rotate(cluster, &user, &runs, "celia").await
}

/// Asks who we are, again and again, until enough credentials were seen by the server.
async fn rotate(cluster: &Cluster, user: &Value, runs: &Path, name: &str) -> Outcome<String> {
    let agent = format!("keyward-e2e/rotates-{}", name.rsplit(':').next().unwrap_or_default());
    let (client, _) = client(cluster, user, &agent)?;
    let mut seen = BTreeSet::new();
    let mut requests = 0;
    while seen.len() < ROTATIONS {
        let review = whoami(&client).await?;
        if review["status"]["userInfo"]["username"] != name {
            return Err(format!("the server saw {review}").into());
        }
        seen.insert(which(&review));
        requests += 1;
        tokio::time::sleep(PAUSE).await;
    }
    let runs = count(runs);
    if runs > seen.len() + 1 {
        return Err(format!("{runs} runs of the plugin for {} credentials", seen.len()).into());
    }
    // A refused request is sent again, so that the caller would not see it.
    match refusals(cluster, &agent)? {
        0 => Ok(format!("{requests} requests, {} credentials, {runs} runs", seen.len())),
        refused => Err(format!("{refused} of {requests} requests were refused at first").into()),
    }
}

/// Files are read again about once a minute; what was in them before is good all the while.
pub async fn files(cluster: &Cluster) -> Outcome<String> {
    let (token, certificate, key) = (
        cluster.path("changing-token"),
        cluster.path("changing.crt"),
        cluster.path("changing.key"),
    );
    let fill = async |account: &str, name: &str| {
        config::private(&token, &cluster.token(account, &[]).await?)?;
        let issued = cluster.authority.client(name).issue()?;
        config::private(&key, issued.key_pem())?;
        config::private(&certificate, issued.certificate_pem())
    };
    fill("builder", "fay").await?;
    let users = [
        (json!({ "tokenFile": token }), "system:serviceaccount:default:", "builder", "puller"),
        (json!({ "client-certificate": certificate, "client-key": key }), "", "fay", "finn"),
    ];
    let agent = "keyward-e2e/files";
    let mut left = Vec::new();
    for (user, realm, before, after) in &users {
        let (client, _) = client(cluster, user, agent)?;
        let seen = username(&client).await?;
        if seen != format!("{realm}{before}") {
            return Err(format!("the user is `{seen}`, not `{before}`").into());
        }
        left.push((client, seen, format!("{realm}{after}")));
    }
    fill("puller", "finn").await?;
    let mut requests = left.len();
    while !left.is_empty() {
        for (client, before, after) in std::mem::take(&mut left) {
            let seen = username(&client).await?;
            requests += 1;
            if seen == before {
                left.push((client, before, after));
            } else if seen != after {
                return Err(format!("`{before}` became `{seen}`, not `{after}`").into());
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    match refusals(cluster, agent)? {
        0 => Ok(format!("{requests} requests; builder became puller, and fay became finn")),
        refused => Err(format!("{refused} of {requests} requests were refused at first").into()),
    }
}

/// The plugin says no end; the certificate has one, which nobody looks for: the server's refusal is
/// what tells, and the caller sees none.
pub async fn end(cluster: &Cluster) -> Outcome<String> {
    let plugin = Script::new();
    let issue = |seconds| {
        let until = SystemTime::now() + Duration::from_secs(seconds);
        cluster.authority.client("edda").until(until).issue()
    };
    let first = issue(20)?;
    plugin.answer(None, Some(&first));
    let agent = "keyward-e2e/end";
    let (client, _) = client(cluster, &plugin.user(), agent)?;
    let before = which(&whoami(&client).await?);
    plugin.answer(None, Some(&issue(600)?));
    let old = cluster.kubeconfig(&config::certificate(&first))?;
    while !is_refused(cluster, &old).await? {
        whoami(&client).await?;
        tokio::time::sleep(PAUSE).await;
    }
    let after = which(&whoami(&client).await?);
    let (runs, refused) = (plugin.runs(), refusals(cluster, agent)?);
    if before == after || runs != 2 || refused != 1 {
        return Err(
            format!("{before}, then {after}, after {runs} runs and {refused} refusals").into()
        );
    }
    Ok("the server refused the first once, and saw the second".to_owned())
}

/// A token that is bound to a secret ends with it. The server keeps its judgement for some seconds.
pub async fn revoked(cluster: &Cluster) -> Outcome<String> {
    let bound = async |name: &str| {
        cluster
            .apply(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "default" } }))
            .await?;
        cluster
            .token("builder", &["--bound-object-kind", "Secret", "--bound-object-name", name])
            .await
    };
    let (first, second) = (bound("bond-one").await?, bound("bond-two").await?);
    let plugin = Script::new();
    plugin.answer(Some(&first), None);
    let agent = "keyward-e2e/revoked";
    let (client, _) = client(cluster, &plugin.user(), agent)?;
    let before = which(&whoami(&client).await?);
    plugin.answer(Some(&second), None);
    cluster.kubectl(&["delete", "secret", "bond-one", "--namespace", "default"]).await?;
    let old = cluster.kubeconfig(&json!({ "token": first }))?;
    while !is_refused(cluster, &old).await? {
        tokio::time::sleep(PAUSE).await;
    }
    let after = which(&whoami(&client).await?);
    let (runs, refused) = (plugin.runs(), refusals(cluster, agent)?);
    if before == after || runs != 2 || refused != 1 {
        return Err(
            format!("{before}, then {after}, after {runs} runs and {refused} refusals").into()
        );
    }
    Ok(format!("one request, one refusal, one more run, {before} became {after}"))
}

/// A client of the library that shares its credentials with nobody, and calls itself by this name.
pub fn client(cluster: &Cluster, user: &Value, agent: &str) -> Outcome<(Client, Target)> {
    let text = config::text(&cluster.address, cluster.authority.pem(), user);
    let target = Kubeconfig::from_bytes(text.as_bytes())?
        .resolve(&Overrides::default(), &Surroundings::process())?;
    let mut settings = PlanSettings::default();
    settings.person = false;
    let sources = Sources::new(std::sync::Arc::new(SystemClock), std::sync::Arc::new(NoopObserver));
    let client = Client::builder().plan(settings).user_agent(agent).open(
        &target,
        &Rules::default(),
        &sources,
    )?;
    Ok((client, target))
}

/// How often the server did not know who asks, of a client that calls itself by this name.
fn refusals(cluster: &Cluster, agent: &str) -> Outcome<usize> {
    let requests = audit::requests(&cluster.audit(), agent)?;
    if requests.is_empty() {
        return Err(format!("nothing is written about `{agent}`").into());
    }
    Ok(requests.iter().filter(|request| request.code == 401).count())
}

/// Whether the server no longer takes the credential of this kubeconfig; any other failure is one.
async fn is_refused(cluster: &Cluster, kubeconfig: &Path) -> Outcome<bool> {
    let ran = cluster.theirs(kubeconfig, &["auth", "whoami"]).await?;
    match ran.status.success() {
        true => Ok(false),
        false if ran.stderr.contains("Unauthorized") => Ok(true),
        false => Err(format!("kubectl: {}: {}", ran.status, ran.stderr).into()),
    }
}

async fn username(client: &Client) -> Outcome<String> {
    let review = whoami(client).await?;
    Ok(review["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
}

/// The credential that the server says was used.
fn which(review: &Value) -> String {
    same::which(&review["status"]["userInfo"])
}

/// How often a plugin of ours has run.
pub fn count(runs: &Path) -> usize {
    fs::read_to_string(runs).map_or(0, |text| text.lines().count())
}

/// Whom the server takes a client for; anything but success is an error.
pub async fn whoami(client: &Client) -> Outcome<Value> {
    let object = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(Body::from(object.to_string()))?;
    let response = client.send(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
    }
    Ok(serde_json::from_slice(&body)?)
}
