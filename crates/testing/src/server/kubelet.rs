//! The side of a kubelet that an API server sees: its own paths and words for what pods do.

use std::sync::Arc;

use http::{Method, Request};
use hyper::body::Incoming;

use super::{
    Caller, Shared,
    answer::{Answer, not_found, text_answer},
    api::query::Query,
    pod::{exec::Words, log_answer},
    upgrade::{self, Part, Wish},
};

/// Answers a request whose sender is known. Every container of a pod is the same one here.
pub(crate) fn answer(
    shared: &Arc<Shared>,
    caller: Caller,
    parts: &[&str],
    request: Request<Incoming>,
) -> Answer {
    let part = match parts {
        ["healthz"] => return text_answer("ok"),
        ["containerLogs", namespace, pod, _] if request.method() == Method::GET => {
            let query = Query::read(request.uri());
            return log_answer(shared, namespace, pod, &query);
        }
        ["exec", _, _, _] => Part::Exec,
        ["attach", _, _, _] => Part::Attach,
        ["portForward", _, _] => Part::Forward,
        _ => return not_found(),
    };
    let wish = Wish { namespace: parts[1], pod: parts[2], part, words: Words::KUBELET };
    upgrade::answer(shared, caller.connection, &wish, request)
}
