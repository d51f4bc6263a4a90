//! What is seen of a run, and how one run is compared with another.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use http::HeaderValue;
use keyward_testing::server::{Proof, Record, Server};
use percent_encoding::percent_decode_str;

use super::case::Case;

/// What differs on purpose; `docs/conformance.md` lists the same.
const CHAIN: &str = "a plugin has one variable more, `KEYWARD_CHAIN`, which ends a loop of plugins";
const ONCE: &str =
    "an answer that is already over is asked for once a request, not for the handshake too";
const VERBATIM: &str =
    "a query is sent as it was written; the reference sorts it and escapes it anew";
const NUMBER: &str =
    "a wrong flag, a missing terminal and a denied plugin have an exit code of their own";

/// Headers that say what a client is and what it can read, and nothing of who asks.
const MANNERS: &[&str] =
    &["accept", "accept-encoding", "user-agent", "kubectl-command", "kubectl-session"];

/// What a run left behind.
#[derive(Debug)]
pub(super) struct Trace {
    /// The number the program ended with.
    pub(super) code: i32,
    /// What the plugin was given, each time.
    pub(super) runs: Vec<Run>,
    /// What the server received.
    pub(super) requests: Vec<Request>,
}

/// What a plugin was given.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    /// Each variable as it came, sorted.
    variables: Vec<OsString>,
    /// What its stdin is.
    stdin: String,
}

/// What the server received.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    method: String,
    /// Path and query.
    target: String,
    /// By name; those of one name as they came.
    headers: Vec<(String, HeaderValue)>,
    /// The serial number of the client's certificate.
    certificate: Option<u64>,
    /// Who it was taken for, and by what.
    user: Option<(String, Proof)>,
}

impl Trace {
    /// Of a program that ended with this number, whose plugin wrote into `folder`.
    pub(super) fn read(code: i32, folder: &Path, server: &Server) -> io::Result<Self> {
        let mut runs = Vec::new();
        while let Ok(environment) = fs::read(folder.join(format!("run.{}", runs.len()))) {
            let mut variables: Vec<OsString> = environment
                .split_inclusive(|byte| *byte == 0)
                .map(|variable| variable.strip_suffix(b"\0").unwrap_or(variable).to_vec())
                .map(OsString::from_vec)
                .collect();
            variables.sort();
            let stdin = fs::read_to_string(folder.join(format!("in.{}", runs.len())))?;
            let stdin =
                if stdin.starts_with("/dev/pts/") { "a terminal" } else { stdin.trim_end() };
            runs.push(Run { variables, stdin: stdin.to_owned() });
        }
        let requests = server.recorder().all().into_iter().map(Request::from).collect();
        Ok(Self { code, runs, requests })
    }

    /// Compares our trace with this one of kubectl: what differs on purpose, or `Err` with what else does.
    /// `inside` is what kubectl ended with in our proxy, where it was asked.
    pub(super) fn compare(
        &self,
        ours: &Self,
        inside: Option<i32>,
        case: &Case,
    ) -> Result<Vec<&'static str>, String> {
        let mut excuses = Vec::new();
        let mut runs = ours.runs.clone();
        if runs.iter_mut().filter_map(Run::unchain).count() > 0 {
            excuses.push(CHAIN);
        }
        if runs != self.runs {
            // Fewer of the same runs, and none of another kind.
            let fewer = runs.len() < self.runs.len() && !runs.is_empty();
            if !(fewer
                && case.is_over()
                && self.runs.iter().chain(&runs).all(|run| *run == runs[0]))
            {
                return Err("what the plugin was given".to_owned());
            }
            excuses.push(ONCE);
        }
        if self.requests != ours.requests {
            let plain =
                |trace: &Self| trace.requests.iter().map(Request::plain).collect::<Vec<_>>();
            if plain(self) != plain(ours)
                || ours.requests.iter().any(|sent| !case.asks(&sent.target))
            {
                return Err("what the server received".to_owned());
            }
            excuses.push(VERBATIM);
        }
        let promised = case.promise(self.code).ok_or("kubectl's exit code")?;
        if ours.code != promised || inside.is_some_and(|code| code != promised) {
            return Err(format!("exit code: {promised} was promised; {inside:?} in the proxy"));
        }
        if promised != self.code {
            excuses.push(NUMBER);
        }
        Ok(excuses)
    }
}

impl Run {
    /// Takes our own variable away, when it is there once.
    fn unchain(&mut self) -> Option<OsString> {
        let is_ours = |name: &OsString| name.as_bytes().starts_with(b"KEYWARD_CHAIN=");
        let mut places = (0..self.variables.len()).filter(|at| is_ours(&self.variables[*at]));
        match (places.next(), places.next()) {
            (Some(at), None) => Some(self.variables.remove(at)),
            _ => None,
        }
    }
}

impl Request {
    /// The request with its query sorted by name and unescaped.
    fn plain(&self) -> Self {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let plain = |text: &str| -> Vec<u8> {
            let text = text.replace('+', " ");
            percent_decode_str(&text).collect()
        };
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let mut pairs: Vec<_> = pairs.map(|(name, value)| (plain(name), plain(value))).collect();
        pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { target: format!("{path} {pairs:?}"), ..self.clone() }
    }
}

impl From<Record> for Request {
    fn from(record: Record) -> Self {
        let headers = record.headers.iter();
        let mut headers: Vec<_> = headers
            .filter(|(name, _)| !MANNERS.contains(&name.as_str()))
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect();
        headers.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self {
            method: record.method.to_string(),
            target: record.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            headers,
            certificate: record.serial,
            user: record.user.zip(record.proof),
        }
    }
}

#[cfg(test)]
mod tests {
    use keyward_testing::authority::Authority;

    use super::*;
    use crate::{generate::Rng, kubectl::case::Certificates};

    fn trace(variables: &[&[u8]]) -> Trace {
        let variables = variables.iter().map(|bytes| OsString::from_vec(bytes.to_vec())).collect();
        let request = Request {
            method: "GET".to_owned(),
            target: "/version".to_owned(),
            headers: vec![("authorization".to_owned(), HeaderValue::from_static("Bearer good"))],
            certificate: Some(7),
            user: Some(("carol".to_owned(), Proof::Certificate)),
        };
        let run = Run { variables, stdin: "/dev/null".to_owned() };
        Trace { code: 0, runs: vec![run], requests: vec![request] }
    }

    /// One whose answer is not over.
    fn case() -> Case {
        let certificates = Certificates::issue(&Authority::new("test").unwrap()).unwrap();
        let mut rng = Rng::new(1);
        loop {
            let case = Case::make(&mut rng, &certificates, true);
            if !case.is_over() {
                return case;
            }
        }
    }

    #[test]
    fn our_own_variable_is_counted_and_no_other_is_excused() {
        let (case, theirs) = (case(), trace(&[b"A=1"]));
        assert_eq!(theirs.compare(&trace(&[b"A=1"]), None, &case), Ok(vec![]));
        let chained = trace(&[b"A=1", b"KEYWARD_CHAIN=x"]);
        assert_eq!(theirs.compare(&chained, None, &case), Ok(vec![CHAIN]));
        let others: [&[&[u8]]; 4] = [
            &[b"A=1", b"KEYWARD_OTHER=x"],
            &[b"A=1", b"KEYWARD_CHAIN=x", b"KEYWARD_CHAIN=y"],
            &[b"KEYWARD_CHAIN=x"],
            &[],
        ];
        for other in others {
            assert!(theirs.compare(&trace(other), None, &case).is_err(), "{other:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_told_apart() {
        let theirs = trace(&[b"A=\xff"]);
        assert!(theirs.compare(&trace(&[b"A=\xfe"]), None, &case()).is_err());
    }

    #[test]
    fn a_plugin_that_runs_less_often_is_excused_only_when_its_answer_is_over() {
        let mut theirs = trace(&[]);
        theirs.runs.push(theirs.runs[0].clone());
        assert!(theirs.compare(&trace(&[]), None, &case()).is_err());
    }

    #[test]
    fn every_part_of_a_request_counts() {
        let (case, theirs) = (case(), trace(&[]));
        let changes: [fn(&mut Request); 6] = [
            |request| request.method = "HEAD".to_owned(),
            |request| request.target = "/version?".to_owned(),
            |request| request.headers[0].1 = HeaderValue::from_static("Bearer bad"),
            |request| request.headers.push(("cookie".to_owned(), HeaderValue::from_static("a"))),
            |request| request.certificate = None,
            |request| request.user = None,
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut ours = trace(&[]);
            change(&mut ours.requests[0]);
            assert!(theirs.compare(&ours, None, &case).is_err(), "change {at}");
        }
    }

    #[test]
    fn an_exit_code_that_was_not_promised_is_a_difference_in_the_proxy_too() {
        let (case, theirs) = (case(), trace(&[]));
        let ended = |code| Trace { code, ..trace(&[]) };
        assert!(theirs.compare(&ended(1), None, &case).is_err());
        assert!(theirs.compare(&ended(0), Some(1), &case).is_err());
        assert!(ended(7).compare(&ended(7), None, &case).is_err());
    }
}
