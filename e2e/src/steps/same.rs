//! Asks both programs who we are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{Outcome, cluster::Cluster, config, tools::Ran};

/// The credential's id: it differs from one token of a user to the next.
const WHICH: &str = "authentication.kubernetes.io/credential-id";

/// The credential that each program presents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// Both have the same one, so that the server must name the same one.
    One,
    /// A plugin makes a new one at every run.
    Each,
}

/// What a program says of who we are.
pub struct Said {
    review: Value,
    table: String,
}

/// Who the server takes both for, and both print the same; an error where they differ. kubectl
/// writes what it has renewed into its kubeconfig, so it gets a copy: what is left for keyward must
/// not be its work.
pub async fn user(
    cluster: &Cluster,
    kubeconfig: &Path,
    flags: &[&str],
    credential: Credential,
) -> Outcome<Value> {
    let theirs = kubectl(cluster, &copy(cluster, kubeconfig)?, flags).await?;
    let ours = keyward(cluster, kubeconfig, flags).await?;
    compare(&theirs, &ours, credential)
}

/// As [`user`], and it must be this one. For the line of the step.
pub async fn named(
    cluster: &Cluster,
    user: &Value,
    name: &str,
    credential: Credential,
) -> Outcome<String> {
    let seen = self::user(cluster, &cluster.kubeconfig(user)?, &[], credential).await?;
    if seen["username"] != name {
        return Err(format!("the user is {}, not `{name}`", seen["username"]).into());
    }
    Ok(line(&seen))
}

/// Both are refused, and keyward with its own exit code for a failure.
pub async fn refused(cluster: &Cluster, user: &Value, reason: &str) -> Outcome<String> {
    let kubeconfig = cluster.kubeconfig(user)?;
    let theirs = cluster.theirs(&copy(cluster, &kubeconfig)?, &["auth", "whoami"]).await?;
    let ours = cluster.ours(&kubeconfig, &["whoami"]).await?;
    for (name, ran) in [("kubectl", &theirs), ("keyward", &ours)] {
        if ran.status.code() != Some(1) {
            return Err(format!("{name}: {}, {}{}", ran.status, ran.stdout, ran.stderr).into());
        }
        if !ran.stderr.to_lowercase().contains(reason) {
            return Err(format!("{name} does not say `{reason}`: {}", ran.stderr).into());
        }
    }
    Ok(format!("both end with 1 and say `{reason}`"))
}

/// What kubectl says, in two runs.
pub async fn kubectl(cluster: &Cluster, kubeconfig: &Path, flags: &[&str]) -> Outcome<Said> {
    let words = [&["auth", "whoami"], flags].concat();
    let json = cluster.theirs(kubeconfig, &[&words[..], &["-o", "json"]].concat()).await?;
    Said::new("kubectl", &json, &cluster.theirs(kubeconfig, &words).await?)
}

/// What keyward says, in two runs. It writes into no kubeconfig.
pub async fn keyward(cluster: &Cluster, kubeconfig: &Path, flags: &[&str]) -> Outcome<Said> {
    let before = fs::read(kubeconfig)?;
    let words = [&["whoami"], flags].concat();
    let json = cluster.ours(kubeconfig, &[&words[..], &["-o", "json"]].concat()).await?;
    let said = Said::new("keyward", &json, &cluster.ours(kubeconfig, &words).await?)?;
    if fs::read(kubeconfig)? != before {
        return Err(format!("keyward has written into `{}`", kubeconfig.display()).into());
    }
    Ok(said)
}

/// The user, if both said the same: every field of the review but its time, and every byte of the
/// table.
pub fn compare(theirs: &Said, ours: &Said, credential: Credential) -> Outcome<Value> {
    let (left, right) = (review(&theirs.review, credential), review(&ours.review, credential));
    if left != right {
        return Err(format!("kubectl says {left}, keyward says {right}").into());
    }
    let (left, right) = (table(&theirs.table, credential), table(&ours.table, credential));
    if left != right {
        return Err(format!("kubectl prints\n{left}keyward prints\n{right}").into());
    }
    let mut user = ours.review["status"]["userInfo"].clone();
    if let Some(extra) = user["extra"].as_object_mut() {
        extra.remove(WHICH);
    }
    Ok(user)
}

/// A copy of a kubeconfig, for a program that may write into it.
pub fn copy(cluster: &Cluster, kubeconfig: &Path) -> Outcome<PathBuf> {
    config::write(&cluster.path("."), &fs::read_to_string(kubeconfig)?)
}

/// A review without what must differ between two of them: its time and, of a credential that is not
/// the same one, everything but its kind.
pub fn review(review: &Value, credential: Credential) -> Value {
    let mut review = review.clone();
    if let Some(time) = review.pointer_mut("/metadata/creationTimestamp") {
        *time = json!(time.is_string());
    }
    let which = review.pointer_mut("/status/userInfo/extra").and_then(|extra| extra.get_mut(WHICH));
    if let (Credential::Each, Some(Value::Array(names))) = (credential, which) {
        for name in names {
            let kind = name.as_str().and_then(|name| name.split('=').next()).map(str::to_owned);
            *name = json!(kind);
        }
    }
    review
}

/// Name and groups, for people.
pub fn line(user: &Value) -> String {
    let groups = user["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    let groups: Vec<&str> = groups.iter().filter_map(Value::as_str).collect();
    format!("{} of {}", user["username"].as_str().unwrap_or_default(), groups.join(", "))
}

/// The credential that the server says was used, from a user's description.
pub fn which(user: &Value) -> String {
    user["extra"][WHICH][0].as_str().unwrap_or_default().to_owned()
}

impl Said {
    fn new(name: &str, json: &Ran, table: &Ran) -> Outcome<Self> {
        let review = json.json().map_err(|e| format!("{name}: {e}"))?;
        if !table.status.success() {
            return Err(format!("{name}: {}: {}", table.status, table.stderr.trim()).into());
        }
        Ok(Self { review, table: table.stdout.clone() })
    }
}

/// As [`review`].
fn table(table: &str, credential: Credential) -> String {
    let mut text = String::new();
    for line in table.split_inclusive('\n') {
        match line.split_once('=') {
            Some((kind, _)) if credential == Credential::Each && line.contains(WHICH) => {
                text.push_str(kind);
                text.push_str("=…]\n");
            }
            _ => text.push_str(line),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "ATTRIBUTE   VALUE\nUsername    tom\n\
        Extra: authentication.kubernetes.io/credential-id   [JTI=a]\n";

    #[test]
    fn tables_differ_by_every_byte_but_those_of_the_credential() {
        let two = ONE.replace("[JTI=a]", "[JTI=b]");
        assert_eq!(table(ONE, Credential::Each), table(&two, Credential::Each));
        assert_ne!(table(ONE, Credential::One), table(&two, Credential::One));
        for (from, to) in [("JTI=", "X509="), ("   VALUE", "  VALUE"), ("tom\n", "tom \n")] {
            let other = ONE.replace(from, to);
            assert_ne!(table(ONE, Credential::Each), table(&other, Credential::Each), "{to:?}");
        }
    }

    #[test]
    fn reviews_differ_by_every_field_but_their_time() {
        let one = json!({
            "kind": "SelfSubjectReview",
            "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" },
            "status": { "userInfo": { "username": "tom", "extra": { WHICH: ["JTI=a"] } } },
        });
        let with = |pointer: &str, value: &str| {
            let mut other = one.clone();
            *other.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = json!(value);
            other
        };
        let id = "/status/userInfo/extra/authentication.kubernetes.io~1credential-id/0";
        for (pointer, value, one_is, each_is) in [
            ("/metadata/creationTimestamp", "2026-01-01T00:00:01Z", true, true),
            (id, "JTI=b", false, true),
            (id, "X509SHA256=b", false, false),
            ("/kind", "Other", false, false),
        ] {
            for (credential, same) in [(Credential::One, one_is), (Credential::Each, each_is)] {
                let (left, right) =
                    (review(&one, credential), review(&with(pointer, value), credential));
                assert_eq!(left == right, same, "{pointer} {value} {credential:?}");
            }
        }
    }
}
