//! The sections of the page.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::Value;

use super::{html::Html, identity::Identity, page::View, timeline, words};

/// How many contexts are shown at first: those in use, then others.
const CONTEXTS: usize = 100;
/// How many errors and streams are shown.
const ROWS: usize = 50;
/// How many groups of a user are shown.
const GROUPS: usize = 6;

pub(super) fn contexts(html: &mut Html, view: &View<'_>, now: Timestamp) {
    let all = list(&view.status["contexts"]);
    let mut shown: Vec<&Value> = all.iter().collect();
    let too_many = shown.len() > CONTEXTS && !view.asks("all");
    if too_many {
        shown.sort_by_key(|context| !is_used(context));
        shown.truncate(CONTEXTS);
    }
    let labels = ["Context", "You are", "Credential", "Requests", "State"];
    html.raw("<table aria-labelledby=\"contexts\">");
    table(html, &labels, |html| {
        for context in &shown {
            row(html, view, context, now);
        }
    });
    if too_many {
        html.raw("<p><a href=\"./?all\">Show all ").text(all.len()).raw(" contexts</a></p>\n");
    }
}

fn row(html: &mut Html, view: &View<'_>, context: &Value, now: Timestamp) {
    let name = words::text(&context["name"]);
    html.raw("<tr><th scope=\"row\">").text(name).raw("<small>");
    let server = words::text(&context["server"]);
    html.text(if server.is_empty() { words::text(&context["url"]) } else { server });
    html.raw("</small></th><td data-label=\"You are\">");
    identity(html, context, view.identities.get(name));
    html.raw("</td><td data-label=\"Credential\">");
    credential(html, &context["credential"], now);
    html.raw("</td><td data-label=\"Requests\">").text(&context["requests"]);
    if context["open"].as_u64().is_some_and(|open| open > 0) {
        html.raw(", ").text(&context["open"]).raw(" open");
    }
    html.raw("</td><td data-label=\"State\">");
    let (class, state, why) = state(context);
    badge(html, class, state);
    if let Some(why) = why {
        html.raw("<small>");
        words::message(html, why);
        html.raw("</small>");
    }
    html.raw("</td></tr>\n");
}

/// The badge of a context, with what is wrong if something is.
fn state(context: &Value) -> (&'static str, &'static str, Option<&str>) {
    if let Some(why) = context["closed"].as_str() {
        return ("bad", "not served", Some(why));
    }
    if let Some(why) = context["fault"].as_str() {
        return ("bad", "no listener", Some(why));
    }
    if context["lastRun"]["succeeded"] == false {
        return ("bad", "plugin fails", None);
    }
    if context["credential"]["expired"] == true {
        return ("bad", "expired", None);
    }
    if context["credential"].is_null() {
        return ("neutral", "not used yet", None);
    }
    ("good", "ready", None)
}

fn identity(html: &mut Html, context: &Value, identity: Option<&Identity>) {
    match identity {
        Some(Identity::User { name, groups }) => {
            html.raw("<strong>").text(name).raw("</strong>");
            if !groups.is_empty() {
                let shown: Vec<&str> = groups.iter().take(GROUPS).map(String::as_str).collect();
                html.raw("<small>").text(shown.join(", "));
                if groups.len() > GROUPS {
                    html.raw(" and ").text(groups.len() - GROUPS).raw(" more groups");
                }
                html.raw("</small>");
            }
        }
        other => {
            // What the credential itself says, which the server has not confirmed.
            match (context["identity"].as_str(), context["user"].as_str()) {
                (Some(name), _) => _ = html.text(name),
                (None, Some(user)) => _ = html.raw("user ").text(user),
                (None, None) => _ = html.raw("–"),
            }
            match other {
                Some(Identity::Unknown(why)) => _ = html.raw("<small>").text(why).raw("</small>"),
                Some(Identity::NotAsked(why)) => {
                    html.raw("<small>not asked: ").text(why).raw("</small>");
                }
                _ => {}
            }
        }
    }
}

fn credential(html: &mut Html, credential: &Value, now: Timestamp) {
    let Some(kind) = credential["kind"].as_str() else {
        html.raw("none yet");
        return;
    };
    html.text(kind).raw("<small>");
    lifetime(html, credential, now);
    html.raw("</small>");
}

fn lifetime(html: &mut Html, credential: &Value, now: Timestamp) {
    if let Some(age) = credential["ageSeconds"].as_u64() {
        html.text(words::span(age)).raw(" old, ");
    }
    if credential["expires"].is_null() {
        html.raw("no expiry");
    } else {
        html.raw(if credential["expired"] == true { "expired " } else { "expires " });
        words::time(html, &credential["expires"], now);
    }
}

pub(super) fn credentials(html: &mut Html, view: &View<'_>, now: Timestamp) {
    let all = list(&view.status["contexts"]).iter();
    let mut known: Vec<&Value> = all.filter(|one| one["credential"]["kind"].is_string()).collect();
    if known.is_empty() {
        html.raw("<p class=\"none\">No credential has been fetched yet.</p>\n");
        return;
    }
    // What ends first matters most; what never ends comes last.
    known.sort_by_key(|one| {
        let end = words::moment(&one["credential"]["expires"]);
        (end.is_none(), end)
    });
    html.raw("<div class=\"timeline\"><div class=\"scale\">");
    timeline::axis(html);
    html.raw("</div>\n<ul>\n");
    for context in known.iter().take(CONTEXTS) {
        let credential = &context["credential"];
        html.raw("<li><span class=\"name\">").text(words::text(&context["name"])).raw("</span>");
        timeline::line(html, credential, now);
        html.raw("<span class=\"when\">");
        lifetime(html, credential, now);
        html.raw("</span></li>\n");
    }
    html.raw("</ul></div>\n");
    html.raw(
        "<p class=\"hint\">The scale is logarithmic: minutes and months fit on one line.</p>\n",
    );
    left_out(html, known.len(), CONTEXTS);
}

pub(super) fn runs(html: &mut Html, status: &Value, now: Timestamp) {
    let runs = list(&status["runs"]);
    if runs.is_empty() {
        html.raw("<p class=\"none\">No plugin has run since the proxy started.</p>\n");
        return;
    }
    html.raw("<table aria-labelledby=\"runs\">");
    table(html, &["When", "Plugin", "For", "Took", "Result"], |html| {
        for run in runs {
            html.raw("<tr><td data-label=\"When\">");
            words::time(html, &run["at"], now);
            html.raw("</td><th scope=\"row\" data-label=\"Plugin\"><code>");
            html.text(run["program"].as_str().unwrap_or("OpenID Connect"));
            html.raw("</code></th><td data-label=\"For\">");
            let names: Vec<&str> =
                list(&run["contexts"]).iter().filter_map(Value::as_str).collect();
            html.text(names.iter().take(GROUPS).copied().collect::<Vec<_>>().join(", "));
            if names.len() > GROUPS {
                html.raw(" and ").text(names.len() - GROUPS).raw(" more");
            }
            html.raw("</td><td data-label=\"Took\">").text(words::took(&run["seconds"]));
            html.raw("</td><td data-label=\"Result\">");
            match run["error"].as_str() {
                Some(error) => {
                    badge(html, "bad", "failed");
                    html.raw("<small>");
                    words::message(html, error);
                    html.raw("</small>");
                }
                None => badge(html, "good", "credential"),
            }
            html.raw("</td></tr>\n");
        }
    });
}

pub(super) fn errors(html: &mut Html, status: &Value, now: Timestamp) {
    let errors = of_contexts(status, "errors", "at");
    if errors.is_empty() {
        html.raw("<p class=\"none\">Clients were told of no error.</p>\n");
        return;
    }
    html.raw("<table aria-labelledby=\"errors\">");
    table(html, &["When", "Context", "What clients were told"], |html| {
        for (name, error) in errors.iter().take(ROWS) {
            html.raw("<tr><td data-label=\"When\">");
            words::time(html, &error["at"], now);
            html.raw("</td><th scope=\"row\" data-label=\"Context\">").text(name);
            html.raw("</th><td data-label=\"Message\">");
            words::message(html, words::text(&error["message"]));
            if let Some(times) = error["times"].as_u64().filter(|times| *times > 1) {
                html.raw(" <small>").text(times).raw(" times</small>");
            }
            html.raw("</td></tr>\n");
        }
    });
    left_out(html, errors.len(), ROWS);
}

pub(super) fn streams(html: &mut Html, status: &Value, now: Timestamp) {
    let streams = of_contexts(status, "streams", "since");
    if streams.is_empty() {
        html.raw("<p class=\"none\">No watch, log, exec or port-forward is open.</p>\n");
        return;
    }
    html.raw("<table aria-labelledby=\"streams\">");
    table(html, &["Opened", "Context", "Kind", "Path"], |html| {
        for (name, stream) in streams.iter().take(ROWS) {
            html.raw("<tr><td data-label=\"Opened\">");
            words::time(html, &stream["since"], now);
            html.raw("</td><th scope=\"row\" data-label=\"Context\">").text(name);
            html.raw("</th><td data-label=\"Kind\">").text(words::text(&stream["kind"]));
            html.raw("</td><td data-label=\"Path\"><code>").text(words::text(&stream["path"]));
            html.raw("</code></td></tr>\n");
        }
    });
    left_out(html, streams.len(), ROWS);
}

/// What the contexts have under `key`, with their names, the newest first.
fn of_contexts<'a>(status: &'a Value, key: &str, time: &str) -> Vec<(&'a str, &'a Value)> {
    let of = |context: &'a Value| {
        let name = words::text(&context["name"]);
        list(&context[key]).iter().map(move |item| (name, item))
    };
    let mut all: Vec<_> = list(&status["contexts"]).iter().flat_map(of).collect();
    all.sort_by_key(|(_, item)| Reverse(words::moment(&item[time])));
    all
}

/// The columns and rows of a table, after its opening tag, which has its name.
pub(super) fn table(html: &mut Html, labels: &[&'static str], rows: impl FnOnce(&mut Html)) {
    html.raw("\n<thead><tr>");
    for label in labels {
        html.raw("<th scope=\"col\">").raw(label).raw("</th>");
    }
    html.raw("</tr></thead>\n<tbody>\n");
    rows(html);
    html.raw("</tbody>\n</table>\n");
}

/// A word with a class, which is `good`, `bad` or `neutral`: colour only repeats what the word says.
pub(super) fn badge(html: &mut Html, class: &'static str, word: &'static str) {
    html.raw("<span class=\"badge ").raw(class).raw("\">").raw(word).raw("</span>");
}

fn left_out(html: &mut Html, all: usize, shown: usize) {
    if all > shown {
        html.raw("<p class=\"hint\">").text(all - shown).raw(" more are not shown.</p>\n");
    }
}

fn is_used(context: &Value) -> bool {
    context["requests"].as_u64().is_some_and(|count| count > 0) || context["credential"].is_object()
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
