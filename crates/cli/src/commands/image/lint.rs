//! `keyward image lint`: checks a configuration by the kubelet's rules, and beyond them.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::ValueEnum;
use http::Request;
use keyward_host::kubeconfig::Place;
use keyward_image::{Config, Files, Severity};
use serde::Serialize;
use serde_json::json;

use super::setup::{Place as Configured, images, usage};
use crate::{
    failure::Failure,
    globals::Globals,
    output::{self, Style, inline},
    server::{self, Server},
};

/// Check a provider configuration: the kubelet's rules, and mistakes that they allow
///
/// Reports every problem with file, line and field; patterns that can never match or match more
/// than they seem to; programs that are missing or not executable; the Kubernetes version that
/// introduced each part; and, as a manifest, the permission that nodes need for service account
/// tokens. Runs nothing. The exit code is 1 if there is an error or, with `--strict`, a warning.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # Before a rollout.
  keyward image lint --config providers.yaml --bin-dir /opt/providers

  # For nodes of an older version.
  keyward image lint --config providers.yaml --bin-dir /opt/providers --kubelet 1.27

  # Give nodes the permission they lack.
  keyward image lint --config providers.yaml --ask-cluster -o manifest | kubectl apply -f -")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Configured,

    /// The oldest kubelet that must understand the configuration
    #[arg(long, value_name = "1.N", value_parser = minor)]
    kubelet: Option<u32>,

    /// Ask the cluster of the current context which permissions its nodes already have
    #[arg(long)]
    ask_cluster: bool,

    /// How to print the findings
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// For programs; docs/cli.md has the schema
    Json,
    /// Only the missing permissions, ready to apply; the findings go to stderr
    Manifest,
}

/// The findings.
#[derive(Debug, Default, Serialize)]
struct Report {
    findings: Vec<Finding>,
    /// The oldest kubelet that supports everything, as `1.N`; left out if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    kubelet: Option<String>,
    needs: Vec<Need>,
    /// The manifest that lets nodes request the tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<String>,
}

#[derive(Debug, Serialize)]
struct Finding {
    #[serde(serialize_with = "output::as_shown")]
    severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// File and line, for people.
    #[serde(skip)]
    place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
    message: String,
}

#[derive(Debug, Serialize)]
struct Need {
    provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    field: &'static str,
    what: &'static str,
}

/// Checks the configuration of this place and reports the findings on stdout.
pub(crate) fn check(place: Configured, globals: &Globals) -> Result<ExitCode, Failure> {
    run(&Args { place, kubelet: None, ask_cluster: false, output: Form::Text }, globals)
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    let path = args.place.config(&globals.surroundings).map_err(|error| usage(&error))?;
    let mut report = Report::default();
    let reading = args.place.reading(&globals.surroundings).map_err(|error| usage(&error))?;
    match Files::read(&path) {
        Ok(files) => {
            let (config, problems) = Config::review(&files, reading);
            report.findings = problems.iter().map(Finding::problem).collect();
            // As far as a configuration with problems can be read.
            let odd = config.lint(path.is_dir(), args.kubelet);
            report.findings.extend(odd.iter().map(Finding::odd));
            report.programs(args, &config, globals);
            if problems.is_empty() {
                report.needs(args, path.is_dir(), &config, globals)?;
            }
        }
        Err(faults) => report.findings = faults.problems.iter().map(Finding::problem).collect(),
    }
    match args.output {
        Form::Json => output::print_json(&report)?,
        Form::Text => output::print(&report.layout(Style::of_stdout(globals)))?,
        Form::Manifest => {
            output::tell(&report.findings_text(Style::of_stderr(globals)));
            output::print(report.manifest.as_deref().unwrap_or_default())?;
        }
    }
    let bad = |finding: &Finding| match finding.severity {
        Severity::Error => true,
        Severity::Warning => globals.flags.strict,
        Severity::Note => false,
    };
    let bad = report.findings.iter().any(bad);
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Report {
    /// Adds what a valid configuration needs.
    fn needs(
        &mut self,
        args: &Args,
        from_folder: bool,
        config: &Config,
        globals: &Globals,
    ) -> Result<(), Failure> {
        let needs = config.requirements(from_folder);
        // `None` sorts below any number, but means more than any here.
        if needs.iter().all(|need| need.since.is_some()) {
            let newest = needs.iter().filter_map(|need| need.since).max();
            self.kubelet = newest.map(|minor| format!("1.{minor}"));
        }
        self.needs = needs.into_iter().map(Need::of).collect();
        let mut missing = config.audiences();
        if args.ask_cluster && !missing.is_empty() {
            missing = denied(missing, globals)?;
        }
        if !missing.is_empty() {
            self.manifest = Some(permissions(&missing));
        }
        Ok(())
    }

    /// The kubelet requires every program to exist when it starts.
    fn programs(&mut self, args: &Args, config: &Config, globals: &Globals) {
        let images = images(&args.place, globals);
        if let Some(folder) = args.place.bin_dir(&globals.surroundings)
            && !folder.is_dir()
        {
            let place = Place { file: Some(folder.into()), line: 0 };
            let message = "names a directory that does not exist".to_owned();
            self.findings.push(Finding::new(Severity::Error, &place, "--bin-dir", message));
            return;
        }
        for provider in &config.providers {
            // Invalid names were reported already.
            if Path::new(&provider.name).file_name() != Some(provider.name.as_ref()) {
                continue;
            }
            let Err(error) = images.locate(provider) else { continue };
            let failure = Failure::from(error);
            let notes = failure.notes().map(|(label, text)| format!("{label} {text}"));
            let words: Vec<_> =
                std::iter::once(failure.message().to_owned()).chain(notes).collect();
            let finding = Finding::new(Severity::Error, &provider.place, "", words.join("; "));
            self.findings.push(Finding { provider: Some(provider.name.clone()), ..finding });
        }
    }

    fn layout(&self, style: Style) -> String {
        let mut out = self.findings_text(style);
        if !self.needs.is_empty() {
            let kubelet = self.kubelet.as_deref().map_or_else(
                || "no kubelet supports this configuration".to_owned(),
                |version| format!("kubelets from {version} on support this configuration"),
            );
            _ = writeln!(out, "{kubelet}");
            let mut told: Vec<&str> = Vec::new();
            for need in &self.needs {
                if told.contains(&need.what) {
                    continue;
                }
                told.push(need.what);
                let since = need.since.as_deref().unwrap_or("never");
                let who = self.needs.iter().filter(|other| other.what == need.what);
                let who = output::list(who.map(|need| &need.provider));
                _ = writeln!(out, "  {since:<6} {} ({who})", need.what);
            }
        }
        if let Some(manifest) = &self.manifest {
            out.push_str("\nnodes need this permission to request the tokens:\n\n");
            out.push_str(manifest);
        }
        out
    }

    fn findings_text(&self, style: Style) -> String {
        let mut out = String::new();
        for finding in &self.findings {
            let severity = style.severity(finding.severity);
            let provider = finding.provider.as_deref().map(|name| format!("{}: ", inline(name)));
            let field = match finding.field.as_str() {
                // A message that begins with a name needs no field.
                "" => String::new(),
                _ if finding.message.starts_with('`') => String::new(),
                field => format!("`{}` ", inline(field)),
            };
            _ = writeln!(
                out,
                "{severity} {}{field}{} ({})",
                provider.unwrap_or_default(),
                inline(&finding.message),
                inline(&finding.place),
            );
        }
        if self.findings.is_empty() {
            out.push_str("no problems found\n");
        }
        out
    }
}

impl Finding {
    fn new(severity: Severity, place: &Place, field: &str, message: String) -> Self {
        Self {
            severity,
            file: place.file.as_deref().map(Path::to_owned),
            line: Some(place.line).filter(|line| *line > 0),
            place: place.to_string(),
            provider: None,
            field: field.to_owned(),
            message,
        }
    }

    fn problem(problem: &keyward_image::Problem) -> Self {
        Self::new(Severity::Error, &problem.place, &problem.field, problem.message.clone())
    }

    fn odd(finding: &keyward_image::Finding) -> Self {
        let keyward_image::Finding { severity, place, field, message, provider, .. } = finding;
        let own = Self::new(*severity, place, field, message.clone());
        Self { provider: provider.clone(), ..own }
    }
}

impl Need {
    fn of(need: keyward_image::Requirement) -> Self {
        let since = need.since.map(|minor| format!("1.{minor}"));
        Self { provider: need.provider, since, field: need.field, what: need.what }
    }
}

/// The permission that nodes need to request tokens for these audiences, as a manifest to apply.
fn permissions(audiences: &[&str]) -> String {
    let mut out = String::from(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  \
         name: keyward-image-credential-audiences\nrules:\n- apiGroups: [\"\"]\n  \
         verbs: [\"request-serviceaccounts-token-audience\"]\n  resources:\n",
    );
    for audience in audiences {
        let mut quoted = String::new();
        keyward_protocol::json::push_text(&mut quoted, audience);
        _ = writeln!(out, "  - {quoted}");
    }
    out.push_str(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata:\n  \
         name: keyward-image-credential-audiences\nroleRef:\n  \
         apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  \
         name: keyward-image-credential-audiences\nsubjects:\n- \
         apiGroup: rbac.authorization.k8s.io\n  kind: Group\n  name: system:nodes\n",
    );
    out
}

/// The audiences that nodes may not request tokens for, according to the cluster.
fn denied<'a>(audiences: Vec<&'a str>, globals: &Globals) -> Result<Vec<&'a str>, Failure> {
    let server = Server::open(&server::Args::default(), globals)?;
    let mut denied = Vec::new();
    for audience in audiences {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "system:node:keyward-lint",
                "groups": ["system:nodes", "system:authenticated"],
                "resourceAttributes": {
                    "verb": "request-serviceaccounts-token-audience",
                    "group": "",
                    "resource": audience,
                },
            },
        });
        let request = Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews");
        let answer = server.ask_json(request, Some(&review))?;
        if answer["status"]["allowed"] != true {
            denied.push(audience);
        }
    }
    Ok(denied)
}

/// `1.27`, `v1.27`, `1.27.3` and `27` are all the minor version 27.
pub(super) fn minor(text: &str) -> Result<u32, String> {
    let version = text.strip_prefix('v').unwrap_or(text);
    let minor = match version.split_once('.') {
        Some(("1", rest)) => rest.split('.').next().unwrap_or(rest),
        Some(_) => "",
        None => version,
    };
    minor.parse().map_err(|_| "use a version such as `1.27`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::minor;

    #[test]
    fn a_version_is_read_as_people_write_it() {
        for text in ["1.27", "v1.27", "1.27.3", "27"] {
            assert_eq!(minor(text), Ok(27), "{text}");
        }
        for text in ["", "2.1", "1.x", "1.", "new"] {
            assert!(minor(text).is_err(), "{text}");
        }
    }
}
