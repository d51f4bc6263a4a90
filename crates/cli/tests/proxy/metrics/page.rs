//! `docs/metrics.md` lists what the programs expose.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use jiff::Timestamp;
use keyward_host::{CallStatus, Metrics, Observer as _};

use keyward_testing::{
    plugin,
    script::Script,
    server::{Server, User},
};

use super::{
    Running, assert_promtool,
    cases::{AgentCase, Case},
    curl, repository,
};
use crate::stage::Stage;

/// The type and the labels of a metric.
type Described = BTreeMap<String, (String, BTreeSet<String>)>;

/// The metrics that the page says are exposed there.
fn listed(place: &str) -> Described {
    let page = repository("docs/metrics.md");
    let table = page.split("## All metrics").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    let places = |row: &[&str]| row[3].split(", ").any(|known| known == place);
    let labels = |cell: &str| {
        let names = cell.split(',').map(|name| name.trim_matches([' ', '`', '|']).to_owned());
        names.filter(|name| !name.is_empty()).collect()
    };
    rows.map(|row| if row[2].starts_with("| ") { shifted(&row) } else { row })
        .filter(|row| places(row))
        .map(|row| {
            let name = row[0].trim_end_matches('`').to_owned();
            (name, (row[1].to_owned(), labels(row[2])))
        })
        .collect()
}

/// A row whose cell of labels is empty, which leaves its border in the next cell.
fn shifted<'a>(row: &[&'a str]) -> Vec<&'a str> {
    let mut cells = row.to_vec();
    cells[2] = cells[2].trim_start_matches("| ");
    cells.insert(2, "");
    cells
}

/// The metrics in Prometheus' text format.
fn exposed(text: &str) -> Described {
    let mut found = Described::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            found.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
        }
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
            let family = name.strip_suffix(end)?;
            found.get(family).filter(|(kind, _)| kind == "histogram").map(|_| family.to_owned())
        });
        let (_, known) = found.get_mut(&family.unwrap_or(name.to_owned())).unwrap();
        let labels = labels.trim_end_matches('}').split("\",").filter_map(|l| l.split_once('='));
        known.extend(labels.map(|(name, _)| name.to_owned()).filter(|name| name != "le"));
    }
    found
}

#[test]
fn the_page_lists_what_the_proxy_exposes() {
    let case = Case::new();
    case.ask_as_somebody_else();
    let text = curl(&[&case.metrics]).unwrap();
    assert_promtool(&["check", "metrics"], &text);
    assert_eq!(exposed(&text), without_absent(listed("proxy"), &text));
}

/// The page says which samples appear only when there is something to say.
fn without_absent(mut listed: Described, text: &str) -> Described {
    let expiry = "keyward_proxy_credential_expiry_timestamp_seconds";
    if !text.contains(&format!("\n{expiry}{{")) {
        listed.get_mut(expiry).unwrap().1.clear();
    }
    listed
}

#[test]
fn the_page_lists_what_the_agent_exposes() {
    let case = AgentCase::new();
    case.ask("config");
    let text = curl(&[&case.metrics]).unwrap();
    assert_promtool(&["check", "metrics"], &text);
    assert_eq!(exposed(&text), listed("agent"));
}

#[test]
fn the_page_lists_what_a_program_exposes() {
    let metrics = Metrics::default();
    metrics.ran("p", 0, CallStatus::NoError, Duration::from_secs(1));
    let text = metrics.text(Timestamp::now());
    assert_promtool(&["check", "metrics"], &text);
    assert_eq!(exposed(&text), listed("library"));
    metrics.provided("ecr", Duration::from_secs(1), true);
    metrics.configured(Some("sha256:aa"), None);
    let text = metrics.text(Timestamp::now());
    assert_promtool(&["check", "metrics"], &text);
    let mut both = listed("library");
    both.extend(listed("images"));
    assert_eq!(exposed(&text), both);
}

#[test]
fn the_example_serves_the_metrics_of_its_client() {
    let script = Script::new();
    script.answer(Some("one"), None);
    let server = Server::setup().start().unwrap();
    server.users().token("one", User::new("anna"));
    let stage = Stage::of(server, &script.user());
    let mut command = Command::new(plugin::client_example("keyward", "metrics"));
    command.env_clear().env("HOME", stage.folder.path()).env("PATH", "/usr/bin:/bin");
    command.env("KUBECONFIG", stage.path("config")).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let _running = Running(child);
    let line = lines.next().unwrap();
    assert_eq!(lines.next().unwrap(), "the server answered 200 OK");
    let text = curl(&[line.strip_prefix("metrics ").unwrap()]).unwrap();
    let run = "rest_client_exec_plugin_call_total{code=\"0\",call_status=\"no_error\"} 1";
    assert!(text.lines().any(|line| line == run), "{text}");
    assert_eq!(exposed(&text), listed("library"));
}
