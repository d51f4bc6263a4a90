//! The alert rules and the dashboard, with a real Prometheus, real proxies and agents, and real faults.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use keyward_testing::{script::Script, server::Server, signer::Token};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{
    assert_promtool,
    cases::{AgentCase, Case, ImageCase, example, install},
    curl,
    prometheus::{Prometheus, eventually},
    repository,
};
use crate::{soak::client, stage::signal};

/// Prometheus with shorter times: one second is a minute and more.
fn configure(dir: &Path, jobs: &[(&str, Vec<String>)]) {
    let mut rules = repository("packaging/prometheus/keyward.rules.yml");
    let file = dir.join("whole.yml");
    fs::write(&file, &rules).unwrap();
    assert_promtool(&["check", "rules", file.to_str().unwrap()], "");
    for (window, short) in [("[15m]", "[20s]"), ("[5m]", "[10s]")] {
        assert!(rules.contains(window), "{window}");
        rules = rules.replace(window, short);
    }
    for minutes in [2, 5, 10, 15] {
        rules = rules.replace(&format!("for: {minutes}m\n"), "for: 5s\n");
    }
    assert!(
        !rules.contains("m]") && rules.matches("for: ").count() == rules.matches("for: 5s").count()
    );
    fs::write(dir.join("rules.yml"), rules).unwrap();
    let jobs: Vec<Value> = jobs
        .iter()
        .map(|(name, targets)| json!({ "job_name": name, "static_configs": [{ "targets": targets }] }))
        .collect();
    let config = json!({
        "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
        "rule_files": [dir.join("rules.yml")],
        "scrape_configs": jobs,
    });
    fs::write(dir.join("prometheus.yml"), config.to_string()).unwrap();
}

/// `127.0.0.1:PORT` of a URL.
fn instance(url: &str) -> String {
    url.trim_start_matches("http://").trim_end_matches("/metrics").to_owned()
}

/// Every query of the dashboard, for all jobs and instances.
fn dashboard() -> Vec<String> {
    let text = repository("packaging/grafana/keyward.json");
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    let filled = |query: &str| {
        let query = query.replace("$job", "keyward.*").replace("$instance", ".*");
        let query = query.replace("$__rate_interval", "20s");
        assert!(!query.contains('$'), "{query}");
        query
    };
    queries.map(filled).collect()
}

/// The alerts that the page lists, with whether they call for a rollback.
fn listed() -> BTreeMap<String, bool> {
    let page = repository("docs/metrics.md");
    let table = page.split("## Alerts").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(name, rest)| (name.to_owned(), rest.ends_with("| yes |"))).collect()
}

#[test]
fn each_alert_fires_on_its_fault_and_none_without() {
    let runtime = Runtime::new().unwrap();
    let healthy = Case::new();
    let failing = Case::new();
    let unauthorized = Case::new();
    let slow = Case::new();
    let certificate = Case::new();
    let config = Case::new();
    let closed = Case::new();
    let mut killed = Case::new();

    let dir = tempfile::tempdir().unwrap();
    let cat = dir.path().join("cat");
    install(Path::new("/bin/cat"), &cat);
    let script = Script::new();
    script.answer(Some("one"), None);
    let mut user = script.user();
    let answer = Path::new(user["exec"]["args"][0].as_str().unwrap()).with_file_name("answer");
    user["exec"]["command"] = cat.to_str().unwrap().into();
    user["exec"]["args"] = json!([answer]);
    let denied = Case::of(script, &user);

    // A resumed session would need no signature.
    let server = Server::setup().forgetful().start().unwrap();
    let token = Token::new(&server.authority().client("carla").issue().unwrap());
    let user = token.user();
    let signer = Case::at(server, Script::new(), &user);

    let (agent, stopped) = (AgentCase::new(), AgentCase::new());
    agent.ask("config");
    let images = Arc::new(ImageCase::new());
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let program = listener.local_addr().unwrap().to_string();
    runtime.spawn(example::serve(listener, images.counts.clone()));

    let proxies = [
        &healthy,
        &failing,
        &unauthorized,
        &slow,
        &certificate,
        &config,
        &closed,
        &killed,
        &denied,
        &signer,
    ];
    for case in proxies {
        let client = client(&case.proxy);
        runtime.spawn(async move {
            loop {
                if let Ok(response) = client.get("/version").await {
                    let _ = response.into_body().text().await;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
    }
    let jobs = [
        ("keyward-proxy", proxies.iter().map(|case| instance(&case.metrics)).collect()),
        ("keyward-agent", vec![instance(&agent.metrics), instance(&stopped.metrics)]),
        ("keyward-program", vec![program.clone()]),
    ];
    let instances: Vec<String> = proxies.iter().map(|case| instance(&case.metrics)).collect();
    configure(dir.path(), &jobs);
    let prometheus = Prometheus::start(dir.path());
    let scrapes = "min(count_over_time(up{job=~\"keyward.*\"}[5m])) > 10";
    eventually("everything was scraped", || match prometheus.query(scrapes).as_slice() {
        [] => Err("not ten times".to_owned()),
        _ => Ok(()),
    });
    assert_eq!(prometheus.firing(), [], "nothing is wrong yet");
    for url in proxies.iter().map(|case| &case.metrics).chain([&agent.metrics, &stopped.metrics]) {
        assert_promtool(&["check", "metrics"], &curl(&[url]).unwrap());
    }

    // The credential expires soon, and the plugin has no other.
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(5);
    failing.script.answer_until("two", &end.to_string());
    failing.accept("two");
    failing.revoke();
    // The server accepts nothing.
    unauthorized.revoke();
    slow.script.hold(true);
    slow.accept("two");
    slow.script.answer(Some("two"), None);
    slow.revoke();
    let held = Instant::now();
    let past = |hours: u64| SystemTime::now() - Duration::from_secs(hours * 3600);
    let old = certificate.stage.server.authority().client("anna").from(past(2)).until(past(1));
    certificate.script.answer(None, Some(&old.issue().unwrap()));
    certificate.revoke();
    config.stage.write("config", "kind: [");
    let address = config.card().address;
    for _ in 0..40 {
        TcpStream::connect(address).unwrap().write_all(b"hello\r\n\r\n").unwrap();
    }
    let deny = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
    closed.stage.write(".kube/kuberc", deny);
    killed.proxy.child.kill().unwrap();
    // Everybody could change the plugin.
    fs::set_permissions(&cat, fs::Permissions::from_mode(0o777)).unwrap();
    denied.revoke();
    fs::remove_file(token.file("key")).unwrap();
    signer.stage.server.cut_connections();
    agent.ask("login");
    signal(&stopped.agent.0, "STOP");
    images.fail();
    let (count, fails) = (AtomicUsize::new(0), images.clone());
    let asks = move || fails.ask(&format!("image{}", count.fetch_add(1, Ordering::Relaxed)));

    let at = |place: usize| instances[place].clone();
    let expected = [
        ("KeywardRefreshFailing", at(1)),
        ("KeywardCredentialExpired", at(1)),
        ("KeywardRequestsFailing", at(1)),
        ("KeywardRequestsUnauthorized", at(2)),
        ("KeywardCredentialsRejected", at(2)),
        ("KeywardPluginRunsTooOften", at(2)),
        ("KeywardPluginSlow", at(3)),
        ("KeywardInvalidCertificate", at(4)),
        ("KeywardConfigNotReloaded", at(5)),
        ("KeywardClientsRejected", at(5)),
        ("KeywardContextNotServed", at(6)),
        ("KeywardNotScraped", at(7)),
        ("KeywardNotScraped", instance(&stopped.metrics)),
        ("KeywardPluginDenied", at(8)),
        ("KeywardSignerFailing", at(9)),
        ("KeywardLoginNeeded", instance(&agent.metrics)),
        ("KeywardImageProviderFailing", program),
    ];
    let expected: Vec<_> = expected.map(|(alert, at)| (alert.to_owned(), at)).to_vec();
    let mut missing = expected.clone();
    let mut seen = Vec::new();
    let mut queries = dashboard();
    eventually("every alert has fired and every query has returned data", || {
        assert!(!asks(), "the provider fails");
        healthy.ask_as_somebody_else();
        if failing.script.runs() > 1 {
            failing.script.fail(true);
        }
        if held.elapsed() > Duration::from_millis(4500) {
            slow.script.hold(false);
        }
        seen.extend(prometheus.firing());
        missing.retain(|alert| !seen.contains(alert));
        queries.retain(|query| prometheus.query(query).is_empty());
        let whole = missing.is_empty() && queries.is_empty();
        if whole { Ok(()) } else { Err(format!("{missing:?} {queries:?}")) }
    });

    let alerts = prometheus.rules().into_iter().map(|rule| {
        let name = rule["name"].as_str().unwrap().to_owned();
        (name, rule["labels"]["rollback"] == "yes")
    });
    let alerts: BTreeMap<_, _> = alerts.collect();
    assert_eq!(alerts, listed(), "the page lists the alerts");
    for alert in alerts.keys() {
        assert!(expected.iter().any(|(known, _)| known == alert), "{alert} has a fault");
    }
    let wrong: Vec<_> = seen.iter().filter(|(_, at)| *at == instances[0]).collect();
    assert!(wrong.is_empty(), "nothing is wrong with the healthy proxy: {wrong:?}");
}
