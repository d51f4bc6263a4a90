//! The kubeconfig and the kuberc change while the proxy runs.

use std::{
    env, fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use keyward::Client;
use keyward_testing::{
    script::Script,
    server::{Server, User},
};
use serde_json::{Value, json};

use crate::{
    soak::client,
    stage::{Proxy, Stage, pod},
    wire::Card,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// What the proxy tells its owner.
pub(crate) fn ask(proxy: &Proxy, path: &str) -> String {
    let mut stream = UnixStream::connect(proxy.kubeconfig.with_file_name("admin.sock")).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn status(proxy: &Proxy) -> Value {
    serde_json::from_str(&ask(proxy, "/status")).unwrap()
}

/// How many changes were taken, and how many were not.
fn versions(proxy: &Proxy) -> [u64; 2] {
    let metrics = ask(proxy, "/metrics");
    ["success", "failure"].map(|outcome| {
        let name = format!("keyward_proxy_config_reloads_total{{outcome=\"{outcome}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap();
        line.parse().unwrap()
    })
}

/// Changes something, and waits until the proxy has judged the change.
fn change(proxy: &Proxy, work: impl FnOnce()) {
    let before = versions(proxy);
    work();
    let begun = Instant::now();
    while versions(proxy) == before {
        assert!(begun.elapsed() < PATIENCE, "the change is not noticed");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Puts a file in the place of another, whole.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

fn kuberc(policy: &str) -> String {
    format!(
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: {policy}\n"
    )
}

/// A server that takes two tokens, the first of which a plugin gives.
fn with_plugin() -> (Stage, Script) {
    let script = Script::new();
    script.answer(Some("one"), None);
    let server = Server::setup().start().unwrap();
    server.users().token("one", User::new("anna"));
    server.users().token("two", User::new("bert"));
    let stage = Stage::of(server, &script.user());
    fs::create_dir(stage.path(".kube")).unwrap();
    (stage, script)
}

#[test]
fn the_next_request_goes_by_the_new_kubeconfig_and_an_open_watch_goes_on() {
    let (stage, script) = with_plugin();
    stage.server.store().put(&pod("a")).unwrap();
    // A device in the list is no pipe, and does not keep the other file from being read again.
    let mut command = stage.keyward(&["proxy"]);
    command.env("KUBECONFIG", format!("/dev/null:{}", stage.path("config").display()));
    let proxy = stage.proxy_of(command);
    let mut watch = proxy.start(&["get", "pods", "-w", "-o", "name"]);
    let mut lines = watch.lines();
    assert_eq!(lines.next().unwrap(), "pod/a");
    let card = Card::read(&proxy.kubeconfig, 0);
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    assert_eq!(stage.server.recorder().last().unwrap().user.as_deref(), Some("anna"));
    let token = stage.server.kubeconfig(&json!({ "token": "two" }));
    change(&proxy, || replace(&stage.path("config"), &token));
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    assert_eq!(stage.server.recorder().last().unwrap().user.as_deref(), Some("bert"));
    assert_eq!((script.runs(), &status(&proxy)["config"]["version"]), (1, &json!(2)));
    stage.server.store().put(&pod("b")).unwrap();
    assert_eq!(lines.next().unwrap(), "pod/b");
    // And written in place, as editors do.
    let back = stage.server.kubeconfig(&script.user());
    change(&proxy, || fs::write(stage.path("config"), &back).unwrap());
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    assert_eq!(stage.server.recorder().last().unwrap().user.as_deref(), Some("anna"));
}

#[test]
fn a_ca_file_that_changes_is_reloaded_with_the_kubeconfig_as_it_was() {
    let (stage, script) = with_plugin();
    let mut config: Value = serde_json::from_str(&stage.server.kubeconfig(&script.user())).unwrap();
    let cluster = config["clusters"][0]["cluster"].as_object_mut().unwrap();
    cluster.remove("certificate-authority-data").unwrap();
    cluster.insert("certificate-authority".to_owned(), json!("ca.pem"));
    let authority = stage.path("ca.pem");
    let other = Server::setup().start().unwrap();
    fs::write(&authority, other.authority().pem()).unwrap();
    replace(&stage.path("config"), &config.to_string());
    // The path is relative to the kubeconfig, wherever the proxy runs.
    let mut command = stage.keyward(&["proxy"]);
    command.current_dir("/");
    let proxy = stage.proxy_of(command);
    let card = Card::read(&proxy.kubeconfig, 0);
    let answer = card.get("/version", "");
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    change(&proxy, || replace(&authority, stage.server.authority().pem()));
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    change(&proxy, || replace(&authority, "no certificate"));
    let fault = status(&proxy)["config"]["fault"]["message"].as_str().unwrap().to_owned();
    assert!(fault.contains("`certificate-authority` holds no certificate"), "{fault}");
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    change(&proxy, || replace(&authority, other.authority().pem()));
    assert!(card.get("/version", "").starts_with("HTTP/1.1 502 "));
}

#[test]
fn a_kubeconfig_from_a_pipe_is_read_once_and_stays_when_other_files_change() {
    let (stage, script) = with_plugin();
    let mut config: Value = serde_json::from_str(&stage.server.kubeconfig(&script.user())).unwrap();
    let cluster = config["clusters"][0]["cluster"].as_object_mut().unwrap();
    cluster.remove("certificate-authority-data").unwrap();
    let authority = stage.write("ca.pem", stage.server.authority().pem());
    cluster.insert("certificate-authority".to_owned(), json!(authority));
    let written = stage.write("piped", &config.to_string());
    fs::remove_file(stage.path("config")).unwrap();
    // The shell's environment is the proxy's.
    let inner = stage.keyward(&[]);
    let mut command = Command::new("bash");
    command.args(["-c", "exec \"$0\" proxy --kubeconfig <(cat \"$1\")"]);
    command.arg(inner.get_program()).arg(written).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let proxy = stage.proxy_of(command);
    let card = Card::read(&proxy.kubeconfig, 0);
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    let other = Server::setup().start().unwrap();
    change(&proxy, || replace(&authority, other.authority().pem()));
    let answer = card.get("/version", "");
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    change(&proxy, || replace(&authority, stage.server.authority().pem()));
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    change(&proxy, || fs::write(stage.path(".kube/kuberc"), kuberc("DenyAll")).unwrap());
    let answer = card.get("/version", "");
    assert!(answer.contains("DenyAll"), "{answer}");
}

#[test]
fn a_policy_that_denies_a_plugin_stops_what_it_gave_already() {
    let (stage, script) = with_plugin();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    let file = stage.path(".kube/kuberc");
    change(&proxy, || fs::write(&file, kuberc("DenyAll")).unwrap());
    let before = stage.server.counts().requests;
    let answer = card.get("/version", "");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("not allowed by policy") && answer.contains("kuberc"), "{answer}");
    assert_eq!((stage.server.counts().requests, script.runs()), (before, 1));
    assert!(status(&proxy)["contexts"][0]["closed"].as_str().unwrap().contains("policy"));
    assert!(ask(&proxy, "/metrics").contains("keyward_proxy_context_served{context=\"test\"} 0"));
    // A kuberc that is broken does not undo it.
    change(&proxy, || fs::write(&file, "kind: [").unwrap());
    assert!(card.get("/version", "").starts_with("HTTP/1.1 403 "));
    change(&proxy, || fs::remove_file(&file).unwrap());
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_context_that_is_broken_does_not_keep_a_policy_from_closing_another() {
    let (stage, script) = with_plugin();
    let config = |other: Value| {
        let text = stage.server.kubeconfig(&script.user());
        let mut config: Value = serde_json::from_str(&text).unwrap();
        let cluster = config["contexts"][0]["context"]["cluster"].clone();
        let context =
            json!({ "name": "other", "context": { "cluster": cluster, "user": "other" } });
        config["contexts"].as_array_mut().unwrap().push(context);
        config["users"].as_array_mut().unwrap().push(json!({ "name": "other", "user": other }));
        config.to_string()
    };
    replace(&stage.path("config"), &config(json!({ "token": "two" })));
    let proxy = stage.proxy(&["--all-contexts"]);
    // Their clusters are in the order of their names.
    let card = Card::read(&proxy.kubeconfig, 1);
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    let broken = config(json!({ "tokenFile": "/no/such/file", "exec": { "command": "" } }));
    change(&proxy, || replace(&stage.path("config"), &broken));
    assert!(status(&proxy)["config"]["fault"].is_object(), "{}", status(&proxy));
    change(&proxy, || fs::write(stage.path(".kube/kuberc"), kuberc("DenyAll")).unwrap());
    let answer = card.get("/version", "");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("not allowed by policy"), "{answer}");
}

#[test]
fn who_waits_for_a_plugin_is_told_at_once_that_it_is_denied() {
    let (stage, script) = with_plugin();
    script.hold(true);
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    let waiting = thread::spawn(move || card.get("/version", ""));
    let begun = Instant::now();
    while script.runs() == 0 {
        assert!(begun.elapsed() < PATIENCE, "the plugin is not run");
        thread::sleep(Duration::from_millis(10));
    }
    change(&proxy, || fs::write(stage.path(".kube/kuberc"), kuberc("DenyAll")).unwrap());
    let answer = waiting.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(stage.server.counts().requests, 0);
}

#[test]
fn a_version_that_is_broken_is_told_of_and_the_one_before_it_stays() {
    let (stage, _script) = with_plugin();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    let good = fs::read_to_string(stage.path("config")).unwrap();
    let other = good.replace("/bin/sh", "/no/such/plugin");
    for (text, word) in [("clusters: [", "config"), (&other, "/no/such/plugin")] {
        change(&proxy, || replace(&stage.path("config"), text));
        assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
        let fault = status(&proxy)["config"]["fault"]["message"].as_str().unwrap().to_owned();
        assert!(fault.contains(word), "{fault}");
        let metric = "keyward_proxy_config_last_reload_successful 0";
        assert!(ask(&proxy, "/metrics").contains(metric));
    }
    let shown = stage.keyward(&["proxy", "status"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("not used") && shown.contains("/no/such/plugin"), "{shown}");
    change(&proxy, || {
        replace(&stage.path("config"), &good.replace("\"Never\"", "\"IfAvailable\""));
    });
    assert_eq!(status(&proxy)["config"]["fault"], Value::Null);
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    // A context that is taken out of it is not served any more.
    change(&proxy, || replace(&stage.path("config"), &good.replace("\"test\"", "\"other\"")));
    let answer = card.get("/version", "");
    assert!(
        answer.starts_with("HTTP/1.1 403 ") && answer.contains("no longer in the kubeconfig"),
        "{answer}"
    );
    let (_, said) = proxy.end();
    assert!(
        said.contains("old version stays in force") && said.contains("/no/such/plugin"),
        "{said}"
    );
}

/// How often the files change; `KEYWARD_RELOADS=50` makes the long form.
fn changes() -> usize {
    env::var("KEYWARD_RELOADS").map_or(15, |text| text.parse().unwrap())
}

#[test]
fn under_load_every_request_goes_by_the_version_in_force() {
    let (stage, script) = with_plugin();
    stage.server.store().put(&pod("a")).unwrap();
    let proxy = stage.proxy(&[]);
    let mut watch = proxy.start(&["get", "pods", "-w", "-o", "name"]);
    let mut lines = watch.lines();
    assert_eq!(lines.next().unwrap(), "pod/a");
    // Which user the version in force has, or nobody where its policy denies; odd while it changes.
    let clock = Arc::new(AtomicU64::new(0));
    let end = Arc::new(AtomicBool::new(false));
    let denied = Arc::new(AtomicBool::new(false));
    let judged = Arc::new(AtomicU64::new(0));
    let load = Load {
        clock: clock.clone(),
        end: end.clone(),
        denied: denied.clone(),
        judged: judged.clone(),
    };
    let asking: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (client, load) = (client(&proxy), load.clone());
            thread::spawn(move || load.ask(&client))
        })
        .collect();
    let begun = Instant::now();
    let versions = [
        stage.server.kubeconfig(&script.user()),
        stage.server.kubeconfig(&json!({ "token": "two" })),
    ];
    let (mut plugin, mut policy) = (true, "AllowAll");
    for round in 1..=changes() {
        clock.fetch_add(1, Ordering::SeqCst);
        change(&proxy, || match round % 3 {
            0 => replace(&stage.path("config"), &format!("clusters: [{round}")),
            1 => {
                policy = if policy == "DenyAll" { "AllowAll" } else { "DenyAll" };
                replace(&stage.path("config"), &versions[usize::from(!plugin)]);
                replace(&stage.path(".kube/kuberc"), &kuberc(policy));
            }
            _ => {
                plugin = !plugin;
                replace(&stage.path("config"), &versions[usize::from(!plugin)]);
            }
        });
        // Two files are two changes, unless they were seen as one.
        let closed = plugin && policy == "DenyAll";
        await_state(&proxy, round % 3 == 0, closed);
        denied.store(closed, Ordering::SeqCst);
        clock.fetch_add(1, Ordering::SeqCst);
        stage.server.store().put(&pod(&format!("p{round}"))).unwrap();
        assert_eq!(lines.next().unwrap(), format!("pod/p{round}"));
        await_requests(&judged);
    }
    end.store(true, Ordering::SeqCst);
    let mut seen = [0_usize; 3];
    for one in asking {
        let counts = one.join().unwrap();
        (0..3).for_each(|place| seen[place] += counts[place]);
    }
    let [allowed, refused, between] = seen;
    let rate = f64::from(u32::try_from(allowed + refused + between).unwrap())
        / begun.elapsed().as_secs_f64();
    println!(
        "{} versions, {rate:.0} requests/s: {allowed} allowed, {refused} denied, {between} while one was replaced",
        changes()
    );
    assert!(allowed > 10 && refused > 10, "both were seen: {seen:?}");
}

/// Clients, and how long each waits from one request to the next: together they ask 200 times a second.
const CLIENTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(20);

/// What the clients go by.
#[derive(Clone)]
struct Load {
    /// Odd while a version is replaced.
    clock: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    denied: Arc<AtomicBool>,
    judged: Arc<AtomicU64>,
}

impl Load {
    /// Asks until the end. How many requests were allowed, were denied, and fell into a change, where either
    /// is right.
    fn ask(&self, client: &Client) -> [usize; 3] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut seen = [0; 3];
            let mut pace = tokio::time::interval(PAUSE);
            while !self.end.load(Ordering::SeqCst) {
                pace.tick().await;
                let before = self.clock.load(Ordering::SeqCst);
                let expected = self.denied.load(Ordering::SeqCst);
                let answer = client.get("/version").await.unwrap();
                let code = answer.status().as_u16();
                let text = answer.into_body().text().await.unwrap();
                assert!(matches!(code, 200 | 403), "{code} {text}");
                if before % 2 == 1 || self.clock.load(Ordering::SeqCst) != before {
                    seen[2] += 1;
                    continue;
                }
                assert_eq!(code == 403, expected, "{code} {text}");
                seen[usize::from(expected)] += 1;
                self.judged.fetch_add(1, Ordering::SeqCst);
            }
            seen
        })
    }
}

/// Waits until so many requests more have gone by one version.
fn await_requests(judged: &AtomicU64) {
    let more = if env::var_os("KEYWARD_RELOADS").is_some() { 100 } else { 10 };
    let enough = judged.load(Ordering::SeqCst) + more;
    let begun = Instant::now();
    while judged.load(Ordering::SeqCst) < enough {
        assert!(begun.elapsed() < PATIENCE, "a client has failed");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the proxy says that a change is broken or not, and its context closed or not.
fn await_state(proxy: &Proxy, broken: bool, closed: bool) {
    let begun = Instant::now();
    loop {
        let status = status(proxy);
        let seen = (&status["config"]["fault"], &status["contexts"][0]["closed"]);
        if (!seen.0.is_null(), !seen.1.is_null()) == (broken, closed) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{status}");
        thread::sleep(Duration::from_millis(10));
    }
}
