//! The steps of the connection: name, proxy, socket, TLS.

use std::net::IpAddr;

use keyward::{Origin, client::Trace, tls::Rejection};
use keyward_host::{Error, Target};
use keyward_process::clock::{Clock as _, SystemClock};
use keyward_protocol::{time::format_rfc3339, x509::Certificate};

use super::{
    fix,
    network::Reached,
    step::{Check, Report, State, Step},
};
use crate::{
    globals::Globals,
    output::{inline, quoted},
};

/// Adds the steps of the connection.
pub(super) fn check(report: &mut Report, globals: &Globals, target: &Target, reached: &Reached) {
    let Some(origin) = &reached.origin else {
        // Mostly the entry has told already.
        if let (Err(failure), false) = (&reached.review, report.has_fault(Check::Entry)) {
            report.add(Step::failed(Check::Entry, failure).at(&target.cluster.place));
        }
        let rest = [Check::Dns, Check::Tcp, Check::Tls, Check::Response, Check::Identity];
        return report.skip(&rest, Check::Entry);
    };
    report.names.add("host", origin.bare_host());
    if !target.cluster.value.tls_server_name.is_empty() {
        report.names.add("host", &target.cluster.value.tls_server_name);
    }
    if let Some((secured, _)) = &reached.trace.secured {
        name_certificate(report, &secured.certificate);
    }
    if let Some((_, certificate)) = &reached.trace.rejected {
        name_certificate(report, certificate);
    }
    let applies = |check: &Check| match check {
        Check::Proxy => reached.trace.proxy.is_some(),
        Check::Tcp => reached.trace.proxy.is_none(),
        Check::Tls => origin.is_https(),
        _ => true,
    };
    let checks = [Check::Dns, Check::Proxy, Check::Tcp, Check::Tls];
    let checks: Vec<Check> = checks.into_iter().filter(applies).collect();
    let passed = checks.iter().position(|check| Some(*check) == reached.broken());
    let (passed, rest) = checks.split_at(passed.unwrap_or(checks.len()));
    for check in passed {
        report.add(good(*check, globals, target, reached));
    }
    if let Some((failed, rest)) = rest.split_first() {
        report.add(fault(*failed, globals, target, reached));
        report.skip(rest, *failed);
        report.skip(&[Check::Response, Check::Clock, Check::Identity], *failed);
    }
}

/// Hides what a certificate names.
fn name_certificate(report: &mut Report, der: &[u8]) {
    let Some(certificate) = Certificate::parse(der) else { return };
    for name in [&certificate.subject, &certificate.issuer] {
        report.names.add("name", &name.to_string());
    }
    for name in &certificate.alternative_names {
        report.names.add("host", &name.to_string());
    }
}

fn good(check: Check, globals: &Globals, target: &Target, reached: &Reached) -> Step {
    let trace = &reached.trace;
    let step = match (check, trace) {
        (Check::Dns, Trace { resolved: Some((addresses, took)), .. }) => {
            let host = looked_up(reached);
            let message = if host.parse::<IpAddr>().is_ok() {
                format!("`{host}` is an address")
            } else {
                let all: Vec<_> = addresses.iter().map(|one| one.ip().to_string()).collect();
                format!("`{host}` is {}", all.join(", "))
            };
            Some(Step::ok(check, message).took(*took))
        }
        (Check::Tcp, Trace { connected: Some((address, took)), .. }) => {
            Some(Step::ok(check, format!("connected to {address}")).took(*took))
        }
        (
            Check::Proxy,
            Trace { proxy: Some(proxy), connected: Some((_, took)), tunnelled: Some(more), .. },
        ) => {
            let source = proxy_source(globals, target, reached);
            Some(Step::ok(check, format!("`{}`, by {source}", inline(proxy))).took(*took + *more))
        }
        (Check::Tls, Trace { secured: Some((secured, took)), .. }) => {
            let step = match Certificate::parse(&secured.certificate) {
                Some(certificate) => shown(&certificate),
                None => Step::ok(check, "the server showed no certificate"),
            };
            let step = step.detail("trusted by", trusted(target));
            Some(step.took(*took).detail("version", secured.version.replace('_', ".")))
        }
        _ => None,
    };
    let step = step.unwrap_or_else(|| Step::ok(check, "reached before"));
    if check == Check::Tls && target.cluster.value.insecure_skip_tls_verify {
        return step
            .turned(State::Note, "the server's certificate is not checked")
            .at(&target.cluster.place);
    }
    step
}

/// The server's certificate: whose, for which names, until when.
fn shown(certificate: &Certificate<'_>) -> Step {
    let now = SystemClock.now();
    let names: Vec<_> = certificate.alternative_names.iter().map(ToString::to_string).collect();
    let end = super::answer::until(certificate.not_after, now);
    Step::ok(Check::Tls, format!("`{}`, signed by `{}`", certificate.subject, certificate.issuer))
        .detail("for", names.join(", "))
        .detail("until", end)
}

fn trusted(target: &Target) -> String {
    let cluster = &target.cluster.value;
    if cluster.insecure_skip_tls_verify {
        "anybody: `insecure-skip-tls-verify` is set".to_owned()
    } else if cluster.certificate_authority_data.is_empty() {
        "the authorities of this machine".to_owned()
    } else {
        target.authority_source()
    }
}

/// The host whose name was looked up: the server's, or the proxy's before it.
fn looked_up(reached: &Reached) -> String {
    let proxy = reached.trace.proxy.as_deref();
    let of_proxy = proxy.and_then(|proxy| {
        let (_, rest) = proxy.split_once("://")?;
        Some(rest.rsplit_once(':').map_or(rest, |(host, _)| host).trim_matches(['[', ']']))
    });
    let own = reached.origin.as_ref().map(Origin::bare_host);
    of_proxy.or(own).unwrap_or_default().to_owned()
}

fn proxy_source(globals: &Globals, target: &Target, reached: &Reached) -> String {
    if !target.cluster.value.proxy_url.is_empty() {
        return "`proxy-url`".to_owned();
    }
    format!("`{}`", proxy_variable(globals, reached).unwrap_or("HTTPS_PROXY"))
}

/// The variable that names the proxy, in the order in which they are read.
fn proxy_variable(globals: &Globals, reached: &Reached) -> Option<&'static str> {
    let https = reached.origin.as_ref().is_none_or(Origin::is_https);
    let names = if https { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    names
        .into_iter()
        .find(|name| globals.surroundings.var(name).is_some_and(|value| !value.is_empty()))
}

/// A fault of the connection, with its cause in the first line.
fn fault(check: Check, globals: &Globals, target: &Target, reached: &Reached) -> Step {
    let Err(failure) = &reached.review else {
        return Step::fault(check, "the connection failed");
    };
    let mut step = Step::failed(check, failure).at(&target.cluster.place);
    let host = looked_up(reached);
    if check == Check::Dns {
        step.message = format!("the name `{}` cannot be resolved", inline(&host));
    }
    // Each error of the chain describes only its own part; the first two make the cause.
    if let Some(first) = step.details.iter().position(|detail| detail.label == Error::CAUSE) {
        let cause = step.details.remove(first);
        step.message = format!("{}: {}", step.message, cause.text);
    }
    let correction =
        fix::set_cluster(globals, &target.cluster.name, &["--server=https://HOST:PORT"]);
    match check {
        Check::Dns => step.advice(format!(
            "check the name, the VPN and DNS (`getent hosts {}`); to correct the address: \
             `{correction}`",
            quoted(&host)
        )),
        Check::Proxy => through_proxy(step, globals, target, reached),
        Check::Tcp => step.advice(format!(
            "check that the cluster runs and that no VPN or firewall is in the way; to correct the \
             address: `{correction}`"
        )),
        _ => unsecured(step, globals, target, reached),
    }
}

fn through_proxy(step: Step, globals: &Globals, target: &Target, reached: &Reached) -> Step {
    let login = reached.trace.login_rejected;
    let cluster = &target.cluster.name;
    if !target.cluster.value.proxy_url.is_empty() {
        if login {
            return step.advice(format!(
                "correct the login in `proxy-url`: `{}`",
                fix::set_cluster(globals, cluster, &["--proxy-url=http://USER:PASSWORD@HOST:PORT"])
            ));
        }
        let field = format!("clusters.{cluster}.proxy-url");
        return step.fix(fix::kubectl_config(globals, &["unset", &field]));
    }
    match proxy_variable(globals, reached) {
        Some(name) if login => step.advice(format!("correct user name and password in `{name}`")),
        Some(name) => step.fix(format!("unset {name}")),
        None => step,
    }
}

fn unsecured(step: Step, globals: &Globals, target: &Target, reached: &Reached) -> Step {
    let cluster = &target.cluster.name;
    let Some((rejection, certificate)) = &reached.trace.rejected else { return step };
    let certificate = Certificate::parse(certificate);
    match rejection {
        // The chain was found good, so one of the certificate's own names is safe to expect.
        Rejection::Name => {
            let names = certificate.iter().flat_map(|one| one.alternative_names.iter());
            let name = names.map(ToString::to_string).find(|name| name.parse::<IpAddr>().is_err());
            match name {
                Some(name) => {
                    let flag = format!("--tls-server-name={name}");
                    step.fix(fix::set_cluster(globals, cluster, &[&flag]))
                }
                None => step.advice("use an address that the certificate is for"),
            }
        }
        Rejection::Expired | Rejection::NotYet => {
            let when = certificate.map(|one| match rejection {
                Rejection::Expired => format_rfc3339(one.not_after),
                _ => format_rfc3339(one.not_before),
            });
            step.advice(format!(
                "compare this machine's clock with {}; otherwise the cluster's administrator has to \
                 renew the certificate",
                when.unwrap_or_default()
            ))
        }
        _ => step.advice(format!(
            "the cluster was rebuilt, or somebody is in between: get its authority from the \
             administrator or your cloud's command line, then run `{}`",
            fix::set_cluster(globals, cluster, &["--embed-certs", "--certificate-authority=FILE"])
        )),
    }
}
