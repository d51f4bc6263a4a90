//! The check of who may see the dashboard, and what the page never shows.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

use super::super::stage::{eventually, prints, said};
use super::scene::{SECRET, Scene};

/// The link's or page's address in parts.
#[derive(Clone)]
struct Place {
    host: String,
    path: String,
}

struct Answer {
    code: u16,
    head: String,
    body: String,
}

impl Place {
    fn of(link: &str) -> Self {
        let rest = link.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        assert!(host.starts_with("127.0.0.1:"), "{link}");
        Self { host: host.to_owned(), path: format!("/{path}") }
    }

    fn at(&self, path: &str) -> Self {
        Self { host: self.host.clone(), path: path.to_owned() }
    }

    fn below(&self, path: &str) -> Self {
        self.at(&format!("{}{path}", self.path))
    }

    fn get(&self, headers: &[&str]) -> Answer {
        let host = format!("Host: {}", self.host);
        self.send("GET", &[&[host.as_str()], headers].concat(), "")
    }

    /// Sends a request with exactly these headers.
    fn send(&self, method: &str, headers: &[&str], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let (path, length, headers) = (&self.path, body.len(), headers.join("\r\n"));
        let head = format!("{method} {path} HTTP/1.1\r\n{headers}\r\nContent-Length: {length}");
        write!(stream, "{head}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { code, head: head.to_owned(), body: body.to_owned() }
    }

    /// What a browser of another user gets.
    fn as_nobody(&self, cookie: &str) -> String {
        let url = format!("http://{}{}", self.host, self.path);
        let setpriv = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];
        let curl = ["curl", "--silent", "--include", "--header", cookie, &url];
        let mut command = Command::new("setpriv");
        prints(command.args(setpriv).args(curl).env_clear().env("PATH", "/usr/bin:/bin"))
    }
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }
}

/// Opens a link; returns the page's place, and the cookie to send.
fn enter(link: &Place) -> (Place, String) {
    let opened = link.get(&["Sec-Fetch-Site: none"]);
    assert_eq!(opened.code, 303, "{}", opened.head);
    let (cookie, rights) = opened.header("set-cookie").split_once("; ").unwrap();
    let page = link.at(opened.header("location"));
    assert_eq!(rights, format!("Path={}; HttpOnly; SameSite=Strict", page.path));
    (page, format!("Cookie: {cookie}"))
}

#[test]
fn only_a_browser_of_the_same_user_with_a_fresh_link_gets_in() {
    let scene = Scene::new();
    let link = Place::of(&scene.link());
    assert!(rustix::process::geteuid().is_root(), "this test needs root, to be another user");
    // None of these spends the link.
    let other = link.as_nobody("X: y");
    assert!(other.starts_with("HTTP/1.1 403") && other.contains("Only browsers of the user"));
    let port = link.host.rsplit(':').next().unwrap();
    let foreign = ["evil.example", "localhost"].map(|name| format!("{name}:{port}"));
    for host in foreign.iter().map(String::as_str).chain(["127.0.0.1", "127.0.0.1:1"]) {
        assert_eq!(link.send("GET", &[&format!("Host: {host}")], "").code, 403, "{host}");
    }
    for header in [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Origin: https://evil.example",
        "Origin: http://127.0.0.1:1",
        "Origin: null",
        "Sec-Purpose: prefetch;prerender",
    ] {
        assert_eq!(link.get(&[header]).code, 403, "{header}");
    }
    assert_eq!(link.send("POST", &[&format!("Host: {}", link.host)], "").code, 403);
    assert_eq!(link.at("/open/").get(&[]).code, 403);
    assert_eq!(link.at("/").get(&[]).code, 403);

    let (page, cookie) = enter(&link);
    let replayed = link.get(&[]);
    assert!(replayed.code == 403 && replayed.body.contains("was used already"), "a replayed link");
    assert!(replayed.header("set-cookie").is_empty());
    let shown = page.get(&[&cookie]);
    assert_eq!(shown.code, 200);
    assert_eq!(page.get(&[]).code, 403, "without the cookie");
    assert_eq!(page.get(&[&cookie, "Sec-Fetch-Site: cross-site"]).code, 403);
    assert_eq!(page.get(&[&cookie, "Origin: https://evil.example"]).code, 403);
    let other = page.as_nobody(&cookie);
    assert!(other.starts_with("HTTP/1.1 403"), "another user with the cookie: {other}");
    // Each browser has its own page.
    let (second, other_cookie) = enter(&Place::of(&scene.link()));
    assert_ne!(second.path, page.path);
    assert_eq!(page.get(&[&other_cookie]).code, 403);
    assert_eq!(second.get(&[&other_cookie]).code, 200);
    assert_eq!(page.send("PUT", &[&format!("Host: {}", page.host), &cookie], "").code, 403);
    assert_eq!(page.below("nothing").get(&[&cookie]).code, 404);

    let policy = shown.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'self'; form-action 'self';"));
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    for (name, value) in [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(shown.header(name), value);
    }
    // Ended with the proxy.
    scene.stage.keyward_prints(&["proxy", "stop"]);
    eventually("nothing listens", || TcpStream::connect(&page.host).is_err());
}

#[test]
fn a_form_needs_the_pages_own_token_and_origin() {
    let scene = Scene::new();
    scene.grant("bot");
    let (page, cookie) = enter(&Place::of(&scene.link()));
    let (other, other_cookie) = enter(&Place::of(&scene.link()));
    let token = |body: &str| {
        let (_, rest) = body.split_once("name=\"form\" value=\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let own = format!("form={}", token(&page.get(&[&cookie]).body));
    let foreign = format!("form={}", token(&other.get(&[&other_cookie]).body));
    assert_ne!(own, foreign);
    let form = page.below("grants/bot/revoke");
    let host = format!("Host: {}", page.host);
    let origin = format!("Origin: http://{}", page.host);
    let send = |headers: &[&str], body: &str| {
        form.send("POST", &[&[host.as_str()], headers].concat(), body).code
    };
    let in_force = || !scene.stage.status()[0]["grants"].as_array().unwrap().is_empty();
    for (headers, body) in [
        (vec![cookie.as_str(), &origin], ""),
        (vec![cookie.as_str(), &origin], "form="),
        (vec![cookie.as_str(), &origin], foreign.as_str()),
        (vec![cookie.as_str()], own.as_str()),
        (vec![cookie.as_str(), "Origin: https://evil.example"], &own),
        (vec![cookie.as_str(), "Origin: null"], &own),
        (vec![cookie.as_str(), &origin, "Sec-Fetch-Site: same-site"], &own),
        (vec![origin.as_str()], &own),
        (vec![other_cookie.as_str(), &origin], &own),
    ] {
        assert_eq!(send(&headers, body), 403, "{headers:?} {body}");
        assert!(in_force());
    }
    assert_eq!(form.get(&[&cookie]).code, 404, "a link revokes nothing");
    assert!(in_force());
    assert_eq!(send(&[&cookie, &origin, "Sec-Fetch-Site: same-origin"], &own), 303);
    assert!(!in_force());
}

#[test]
fn the_page_shows_what_the_proxy_knows_and_no_secret() {
    let mut scene = Scene::new();
    scene.use_it();
    let link = scene.link();
    let (page, cookie) = enter(&Place::of(&link));
    let shown = page.get(&[&cookie]).body;
    for text in [
        "<strong>prod-eu:ann</strong>",
        "developers, on-call, system:authenticated",
        "not asked: there is no credential yet",
        "expires <time datetime=",
        "no expiry",
        "plugin fails",
        "failed with exit code 1",
        "the session of &lt;b&gt;ann&lt;/b&gt; has ended",
        "/api/v1/namespaces/default/configmaps",
        "No grant is in force.",
    ] {
        assert!(shown.contains(text), "`{text}` is not in {shown}");
    }
    for secret in [SECRET, "token-of-", "<script", "javascript:", "style="] {
        assert!(!shown.contains(secret), "`{secret}` is in {shown}");
    }
    let addresses = shown.split("href=\"").skip(1).chain(shown.split("src=\"").skip(1));
    for address in addresses.map(|rest| rest.split_once('"').unwrap().0) {
        assert!(address.starts_with(['.', '#']) || address == "style.css", "{address}");
    }
    assert!(!shown.contains("http-equiv=\"refresh\""), "only if asked for");
    let refreshing = page.below("?refresh").get(&[&cookie]).body;
    assert!(refreshing.contains("<meta http-equiv=\"refresh\" content=\"10\">"));
    assert!(!scene.has_asked(), "looking at the page runs no plugin");
    // A person who only looks does not keep the proxy from ending: these were no requests.
    let requests = |status: &serde_json::Value| status["contexts"][5]["requests"].as_u64();
    assert_eq!(requests(&scene.stage.status()[0]), Some(0));
}

#[test]
fn the_link_goes_to_a_browser_or_to_the_terminal() {
    let scene = Scene::new();
    let mut command = scene.stage.keyward(&["proxy", "dashboard"]);
    let output = command.output().unwrap();
    assert!(said(&output).contains("there is no screen"), "{}", said(&output));
    let link = String::from_utf8(output.stdout).unwrap();
    assert_eq!(Place::of(link.trim_end()).get(&[]).code, 303);
    let browser = scene.stage.path("browser");
    fs::write(&browser, "#!/bin/sh\necho \"$1\" >\"$HOME/new\"\nmv \"$HOME/new\" \"$HOME/link\"\n")
        .unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    scene.stage.keyward_prints(&["proxy", "stop"]);
    let output = command.env("BROWSER", &browser).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output));
    let link = scene.stage.path("link");
    eventually("the browser has the link", || link.exists());
    let link = fs::read_to_string(link).unwrap();
    assert_eq!(Place::of(link.trim_end()).get(&[]).code, 303, "the proxy was started for it");
}

#[test]
fn without_a_proxy_there_is_no_dashboard() {
    let stage = super::super::stage::Stage::new(&["east"]);
    let output = stage.keyward(&["proxy", "dashboard", "--print"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("no proxy is running"), "{}", said(&output));
    assert!(said(&output).contains("`keyward proxy start`"), "{}", said(&output));
}
