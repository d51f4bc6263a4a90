//! The page: its frame, and what is at its top.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{access::Session, grants, html::Html, identity::Identity, sections, words};

/// What the page is made of.
pub(super) struct View<'a> {
    /// The status as `keyward proxy status` has it.
    pub(super) status: &'a Value,
    pub(super) identities: &'a HashMap<String, Identity>,
    pub(super) session: &'a Session,
    pub(super) query: &'a str,
}

/// What every page begins with.
const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
";

/// How often a page that refreshes itself does so, in seconds.
const REFRESH: &str = "10";

/// The sections, with their headings.
const SECTIONS: [(&str, &str); 6] = [
    ("contexts", "Contexts"),
    ("credentials", "Credentials"),
    ("runs", "Plugin runs"),
    ("errors", "Errors"),
    ("streams", "Open streams"),
    ("grants", "Grants"),
];

impl View<'_> {
    /// The whole page.
    pub(super) fn page(&self, now: Timestamp) -> String {
        let mut html = Html::default();
        let refreshes = self.asks("refresh");
        let title = match self.status["service"].as_str() {
            Some(name) => format!("Keyward proxy “{name}”"),
            None => "Keyward proxy".to_owned(),
        };
        head(&mut html, &title, refreshes);
        html.raw("<body>\n<a class=\"skip\" href=\"#main\">Skip to the contexts</a>\n<header>\n");
        html.raw("<div class=\"title\"><h1>").text(&title).raw("</h1>\n");
        self.controls(&mut html, now, refreshes);
        html.raw("</div>\n");
        self.facts(&mut html, now);
        html.raw("<nav aria-label=\"Sections\"><ul>");
        for (id, heading) in SECTIONS {
            html.raw("<li><a href=\"#").raw(id).raw("\">").raw(heading).raw("</a></li>");
        }
        html.raw("</ul></nav>\n</header>\n<main id=\"main\" tabindex=\"-1\">\n");
        self.notices(&mut html, now);
        for (id, heading) in SECTIONS {
            html.raw("<section aria-labelledby=\"").raw(id).raw("\"><h2 id=\"").raw(id);
            html.raw("\" tabindex=\"-1\">").raw(heading).raw("</h2>\n");
            match id {
                "contexts" => sections::contexts(&mut html, self, now),
                "credentials" => sections::credentials(&mut html, self, now),
                "runs" => sections::runs(&mut html, self.status, now),
                "errors" => sections::errors(&mut html, self.status, now),
                "streams" => sections::streams(&mut html, self.status, now),
                _ => grants::grants(&mut html, self, now),
            }
            html.raw("</section>\n");
        }
        html.raw("</main>\n<footer><p>Keyward ").raw(env!("CARGO_PKG_VERSION"));
        html.raw(
            ". <code>keyward proxy status</code> shows the same in a terminal.</p></footer>\n",
        );
        html.raw("</body>\n</html>\n");
        html.into_string()
    }

    /// Whether the query has this word.
    pub(super) fn asks(&self, word: &str) -> bool {
        self.query.split('&').any(|part| part == word)
    }

    /// When the page was made, and how to get a newer one. A page that changes by itself disturbs
    /// readers, so it does only if asked to.
    fn controls(&self, html: &mut Html, now: Timestamp, refreshes: bool) {
        html.raw("<p class=\"controls\"><span>As of <time datetime=\"").text(now).raw("\">");
        html.text(words::clock(now)).raw("</time></span> ");
        let page = |refreshes: bool| match (self.asks("all"), refreshes) {
            (false, false) => "./",
            (true, false) => "./?all",
            (false, true) => "./?refresh",
            (true, true) => "./?all&amp;refresh",
        };
        html.raw("<a class=\"button\" href=\"").raw(page(refreshes)).raw("\">Refresh</a> ");
        let label = if refreshes { "Stop refreshing" } else { "Refresh every 10 s" };
        html.raw("<a class=\"button\" href=\"").raw(page(!refreshes)).raw("\">").raw(label);
        html.raw("</a></p>\n");
    }

    /// What is known of the proxy itself.
    fn facts(&self, html: &mut Html, now: Timestamp) {
        let status = self.status;
        let contexts = || status["contexts"].as_array().into_iter().flatten();
        let total = |name: &str| contexts().filter_map(|one| one[name].as_u64()).sum::<u64>();
        let served = contexts().filter(|one| one["closed"].is_null()).count();
        let in_all = contexts().count();
        html.raw("<dl class=\"facts\">\n<div><dt>Contexts served</dt><dd>").text(served);
        if served < in_all {
            html.raw(" of ").text(in_all);
        }
        html.raw("</dd></div>\n<div><dt>Requests</dt><dd>").text(total("requests"));
        html.raw(", ").text(total("open")).raw(" open</dd></div>\n");
        html.raw("<div><dt>Started</dt><dd>");
        words::time(html, &status["started"], now);
        html.raw(", process ").text(&status["pid"]).raw("</dd></div>\n");
        html.raw("<div><dt>Kubeconfig for clients</dt><dd><code>");
        html.text(words::text(&status["kubeconfig"])).raw("</code></dd></div>\n</dl>\n");
    }

    /// What to know first: that a form has worked, and that the kubeconfig cannot be used.
    fn notices(&self, html: &mut Html, now: Timestamp) {
        if self.asks("revoked") {
            html.raw("<div class=\"notice done\" role=\"status\">The grant is revoked, and its ");
            html.raw("connections are closed.</div>\n");
        }
        let fault = &self.status["config"]["fault"];
        if let Some(message) = fault["message"].as_str() {
            html.raw(
                "<div class=\"notice\"><strong>A change of the kubeconfig is not used.</strong> ",
            );
            words::message(html, message);
            html.raw(" (");
            words::time(html, &fault["at"], now);
            html.raw(")</div>\n");
        }
    }
}

/// A page that says why there is no other.
pub(super) fn refusal(message: &str) -> String {
    let mut html = Html::default();
    html.raw(HEAD);
    html.raw("<title>Keyward proxy</title>\n</head>\n<body>\n<main>\n<h1>Keyward proxy</h1>\n<p>");
    words::message(&mut html, message);
    html.raw("</p>\n</main>\n</body>\n</html>\n");
    html.into_string()
}

fn head(html: &mut Html, title: &str, refreshes: bool) {
    html.raw(HEAD);
    if refreshes {
        html.raw("<meta http-equiv=\"refresh\" content=\"").raw(REFRESH).raw("\">\n");
    }
    html.raw("<title>").text(title).raw("</title>\n");
    html.raw("<link rel=\"stylesheet\" href=\"style.css\">\n</head>\n");
}
