//! The grants, what their consumers did last, and how to end them.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    html::Html,
    page::View,
    sections::{badge, list, table},
    words,
};

pub(super) fn grants(html: &mut Html, view: &View<'_>, now: Timestamp) {
    let grants = list(&view.status["grants"]);
    if grants.is_empty() {
        html.raw(
            "<p class=\"none\">No grant is in force. <code>keyward grant create</code> makes one: ",
        );
        html.raw("access for a tool, a container or an AI agent that can be taken back.</p>\n");
        return;
    }
    for grant in grants {
        let name = words::text(&grant["name"]);
        html.raw("<article class=\"grant\"><div class=\"title\"><h3>").text(name).raw("</h3>\n");
        revoke(html, name, view.session.form());
        html.raw("</div>\n<p>Context <strong>").text(words::text(&grant["context"]));
        html.raw("</strong>, ends ");
        words::time(html, &grant["expires"], now);
        html.raw(". ").text(&grant["requests"]).raw(" requests, ").text(&grant["denied"]);
        html.raw(" denied, ").text(&grant["connections"]).raw(" connections open.</p>\n<ul>");
        for rule in list(&grant["rules"]) {
            html.raw("<li>").text(words::text(rule)).raw("</li>");
        }
        html.raw("</ul>\n");
        requests(html, name, list(&grant["recent"]), now);
        html.raw("</article>\n");
    }
}

/// Two steps, so that no slip of the hand ends a grant. Neither needs a script.
fn revoke(html: &mut Html, name: &str, form: &str) {
    html.raw("<details class=\"revoke\"><summary>Revoke “").text(name).raw("”…</summary>");
    html.raw("<form method=\"post\" action=\"grants/").text(name).raw("/revoke\">");
    html.raw("<input type=\"hidden\" name=\"form\" value=\"").text(form).raw("\">");
    html.raw("<button class=\"danger\">Revoke it now and close its connections</button></form>");
    html.raw("</details>");
}

fn requests(html: &mut Html, name: &str, requests: &[Value], now: Timestamp) {
    if requests.is_empty() {
        html.raw("<p class=\"none\">No request yet.</p>\n");
        return;
    }
    html.raw("<table aria-label=\"Recent requests of ").text(name).raw("\">");
    table(html, &["When", "Verb", "Resource", "Namespace", "Answer"], |html| {
        for request in requests {
            row(html, request, now);
        }
    });
}

fn row(html: &mut Html, request: &Value, now: Timestamp) {
    html.raw("<tr><td data-label=\"When\">");
    words::time(html, &request["at"], now);
    html.raw("</td><td data-label=\"Verb\">").text(words::text(&request["verb"]));
    html.raw("</td><td data-label=\"Resource\"><code>").text(words::text(&request["resource"]));
    if let Some(object) = request["name"].as_str().filter(|object| !object.is_empty()) {
        html.raw(" ").text(object);
    }
    let namespace = words::text(&request["namespace"]);
    html.raw("</code></td><td data-label=\"Namespace\">");
    html.text(if namespace.is_empty() { "–" } else { namespace });
    html.raw("</td><td data-label=\"Answer\">");
    if request["allowed"] == false {
        badge(html, "bad", "denied");
    } else if let Some(code) = request["status"].as_u64() {
        html.text(code);
    } else {
        html.raw("none");
    }
    html.raw("</td></tr>\n");
}
