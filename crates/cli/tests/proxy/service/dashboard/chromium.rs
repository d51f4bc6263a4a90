//! Chromium without a window, driven over the protocol of its developer tools.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take before the test is called hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page. It ends with this value.
pub(super) struct Chromium {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<Value>,
    /// What the browser said unasked.
    events: Vec<Value>,
    session: Option<String>,
    last: u64,
    _profile: TempDir,
}

impl Chromium {
    pub(super) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser talks on the descriptors 3 and 4, so no port is open for others.
        let script = "exec chromium-headless-shell --no-sandbox --disable-gpu --hide-scrollbars \
                      --remote-debugging-pipe --user-data-dir=\"$0\" 3<&0 4>&1 >/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(profile.path())
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let answers = answers(child.stdout.take().unwrap());
        let (events, session) = (Vec::new(), None);
        let mut browser =
            Self { child, requests, answers, events, session, last: 0, _profile: profile };
        let target = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", &attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Network.enable", "Runtime.enable"] {
            browser.ask(domain, &json!({}));
        }
        browser
    }

    /// Asks for something, and returns the answer.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut request = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let message = self.read();
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn read(&mut self) -> Value {
        self.answers.recv_timeout(PATIENCE).expect(
            "`chromium-headless-shell` answers; it is in the Debian package chromium-headless-shell",
        )
    }

    /// Opens a page as the address bar does, and waits until it is there. Returns the addresses that were
    /// loaded for it.
    pub(super) fn open(&mut self, address: &str) -> Vec<String> {
        self.loading(|browser| {
            browser.ask("Page.navigate", &json!({ "url": address }));
        })
    }

    /// Does what loads a page, and waits until it is there.
    pub(super) fn loading(&mut self, act: impl FnOnce(&mut Self)) -> Vec<String> {
        self.events.clear();
        act(self);
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.read();
            self.events.push(event);
        }
        let sent = self.events.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        let urls = sent.filter_map(|event| event["params"]["request"]["url"].as_str());
        urls.map(str::to_owned).collect()
    }

    /// The value of an expression, or of its promise.
    pub(super) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let answer = self.ask("Runtime.evaluate", &params);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    pub(super) fn press(&mut self, key: &str, code: u32) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut params =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                params["text"] = text.into();
            }
            self.ask("Input.dispatchKeyEvent", &params);
        }
    }

    /// Shows the page in this width and scheme (`light` or `dark`).
    pub(super) fn look(&mut self, width: u32, scheme: &str) {
        let metrics = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false,
        });
        self.ask("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.ask("Emulation.setEmulatedMedia", &json!({ "features": [scheme] }));
    }

    /// A picture of the whole page.
    pub(super) fn picture(&mut self) -> Vec<u8> {
        let metrics = self.ask("Page.getLayoutMetrics", &json!({}));
        let size = &metrics["cssContentSize"];
        let clip = json!({
            "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1,
        });
        let params = json!({ "captureBeyondViewport": true, "clip": clip });
        let picture = self.ask("Page.captureScreenshot", &params);
        BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }

    /// What axe-core finds wrong with the page: a line for each rule and element.
    pub(super) fn violations(&mut self) -> Vec<String> {
        let source = std::fs::read_to_string(axe()).unwrap();
        self.evaluate(&format!("{source}; undefined"));
        let found = self.evaluate("axe.run(document, { resultTypes: ['violations', 'passes'] })");
        assert!(
            found["passes"].as_array().unwrap().len() > 20,
            "axe has looked at little: {found}"
        );
        let violations = found["violations"].as_array().unwrap().iter();
        violations
            .flat_map(|rule| {
                let nodes = rule["nodes"].as_array().unwrap().iter();
                let id = rule["id"].as_str().unwrap();
                nodes.map(move |node| format!("{id}: {} {}", node["html"], node["failureSummary"]))
            })
            .collect()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It ends its own processes if it is told to end, rather than killed.
        let _ = self.requests.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE && !matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the browser writes, as it comes.
fn answers(stdout: ChildStdout) -> Receiver<Value> {
    let (sender, answers) = mpsc::channel();
    thread::spawn(move || {
        for message in BufReader::new(stdout).split(0).map_while(Result::ok) {
            if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                return;
            }
        }
    });
    answers
}

/// The script that `cargo xtask test` has installed.
fn axe() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_keyward")).ancestors().nth(2).unwrap();
    let script = target.join("judges/axe/node_modules/axe-core/axe.min.js");
    assert!(
        script.is_file(),
        "npm's axe-core is not in `{}`: `cargo xtask test` installs it, with the Debian packages nodejs \
         and npm",
        script.display()
    );
    script
}
