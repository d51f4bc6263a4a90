//! Where connections differ from kubectl's on purpose; `docs/conformance.md` lists the same.

use serde_json::Value;

use super::Trace;

/// A difference that is deliberate.
struct Departure {
    /// How the names of its cases begin.
    cases: &'static [&'static str],
    /// Whether what both did is what the reason describes.
    describes: fn(theirs: &Trace, ours: &Trace) -> bool,
    reason: &'static str,
}

const DEPARTURES: &[Departure] = &[
    Departure {
        cases: &["server URL with a path", "server URL with a fragment"],
        describes: |theirs, ours| {
            same_but_for(&["target"], theirs, ours, |theirs, ours| {
                let prefix = ours.strip_suffix(theirs);
                prefix.is_some_and(|prefix| prefix.starts_with('/'))
            })
        },
        reason: "`get --raw` stays below the path of the server's URL, as every other request does; kubectl drops the \
                 path for `--raw` alone",
    },
    Departure {
        cases: &["server URL with a name in capitals", "tls-server-name API.EXAMPLE"],
        describes: |theirs, ours| {
            same_but_for(&["name", "host"], theirs, ours, |theirs, ours| {
                theirs.eq_ignore_ascii_case(ours)
            })
        },
        reason: "the server's name is sent in lower case: it means the same",
    },
    Departure {
        cases: &["server URL with a user"],
        describes: |theirs, ours| {
            let header = |trace: &Trace| {
                let request = trace.requests.first()?;
                Some(request["headers"]["Authorization"][0].as_str()?.to_owned())
            };
            let kind =
                |trace: &Trace, kind| header(trace).is_some_and(|text| text.starts_with(kind));
            kind(theirs, "Basic ") && kind(ours, "Bearer ") && {
                let mut ours = ours.clone();
                for (ours, theirs) in ours.requests.iter_mut().zip(&theirs.requests) {
                    ours["headers"]["Authorization"] = theirs["headers"]["Authorization"].clone();
                }
                ours == *theirs
            }
        },
        reason: "the user's own credential is sent; kubectl lets a password in the server's URL go before it",
    },
    Departure {
        cases: &["client key good, certificate empty"],
        describes: |theirs, ours| {
            let anonymous = |request: &Value| {
                request["chain"] == 0 && request["headers"]["Authorization"].is_null()
            };
            !theirs.succeeded && theirs.requests.is_empty() && ours.requests.iter().all(anonymous)
        },
        reason: "a key without a certificate is no credential: kubectl asks for a name and a password on stdin then, we \
                 ask for nothing",
    },
    Departure {
        cases: &["answer of /to/", "answer of /loop"],
        describes: |theirs, ours| {
            let first = theirs.requests.first();
            !ours.succeeded && ours.requests.len() == 1 && ours.requests.first() == first
        },
        reason: "D13: a redirect is reported and not followed, so that credentials go only where the kubeconfig says",
    },
];

/// The reason for which a case of this name may differ like that.
pub(super) fn explains(case: &str, theirs: &Trace, ours: &Trace) -> Option<&'static str> {
    let covers = |departure: &&Departure| {
        departure.cases.iter().any(|begin| case.starts_with(begin))
            && (departure.describes)(theirs, ours)
    };
    DEPARTURES.iter().find(covers).map(|departure| departure.reason)
}

/// Whether the traces are the same but for these fields of each request, and those are as `related` says.
fn same_but_for(
    fields: &[&str],
    theirs: &Trace,
    ours: &Trace,
    related: fn(theirs: &str, ours: &str) -> bool,
) -> bool {
    let mut adjusted = ours.clone();
    for (ours, theirs) in adjusted.requests.iter_mut().zip(&theirs.requests) {
        for field in fields {
            let text = |request: &Value| request[field].as_str().unwrap_or_default().to_owned();
            if !related(&text(theirs), &text(ours)) {
                return false;
            }
            ours[field] = theirs[field].clone();
        }
    }
    adjusted == *theirs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trace(target: &str, name: &str) -> Trace {
        Trace {
            succeeded: true,
            stdout: String::new(),
            requests: vec![json!({
                "target": target, "name": name, "host": name, "chain": 0, "headers": {},
            })],
            proxies: [false; 4],
        }
    }

    #[test]
    fn a_departure_excuses_what_it_describes_and_nothing_else() {
        let path = "server URL with a path";
        let theirs = trace("/version", "a");
        assert!(explains(path, &theirs, &trace("/k8s/version", "a")).is_some());
        assert!(explains(path, &theirs, &trace("/k8s/other", "a")).is_none());
        assert!(explains(path, &theirs, &trace("/k8s/version", "b")).is_none());
        assert!(explains("another case", &theirs, &trace("/k8s/version", "a")).is_none());
        let refused = Trace { succeeded: false, ..trace("/k8s/version", "a") };
        assert!(explains(path, &theirs, &refused).is_none());
        let more = Trace {
            requests: [theirs.requests.clone(), theirs.requests.clone()].concat(),
            ..theirs.clone()
        };
        assert!(explains(path, &theirs, &more).is_none());
        let followed = Trace { requests: more.requests.clone(), ..theirs.clone() };
        let stopped = Trace { succeeded: false, ..theirs.clone() };
        assert!(explains("answer of /to/302", &followed, &stopped).is_some());
        assert!(explains("answer of /to/302", &followed, &theirs).is_none());
        let capitals = "server URL with a name in capitals";
        assert!(explains(capitals, &trace("/", "API"), &trace("/", "api")).is_some());
        assert!(explains(capitals, &trace("/", "API"), &trace("/", "other")).is_none());
    }
}
