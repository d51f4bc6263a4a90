//! Asks both programs who we are.

use std::path::Path;

use serde_json::Value;

use crate::{Outcome, cluster::Cluster};

/// Which credential it was: it differs from one token of a user to the next.
const WHICH: &str = "authentication.kubernetes.io/credential-id";

/// Who the server takes both for, and both print the same; an error where they differ.
pub async fn user(cluster: &Cluster, kubeconfig: &Path, flags: &[&str]) -> Outcome<Value> {
    let json = ["-o", "json"];
    let theirs = cluster.theirs(kubeconfig, &[&["auth", "whoami"], flags, &json].concat()).await?;
    let theirs = info(theirs.json().map_err(|e| format!("kubectl: {e}"))?);
    let ours = cluster.ours(kubeconfig, &[&["whoami"], flags, &json].concat()).await?;
    let ours = info(ours.json().map_err(|e| format!("keyward: {e}"))?);
    if theirs != ours {
        return Err(format!("kubectl is {theirs}, keyward is {ours}").into());
    }
    let theirs = cluster.theirs(kubeconfig, &[&["auth", "whoami"], flags].concat()).await?;
    let own = cluster.ours(kubeconfig, &[&["whoami"], flags].concat()).await?;
    if rows(&theirs.stdout) != rows(&own.stdout) {
        return Err(
            format!("kubectl prints\n{}keyward prints\n{}", theirs.stdout, own.stdout).into()
        );
    }
    Ok(ours)
}

/// As [`user`], and it must be this one. For the line of the step.
pub async fn named(cluster: &Cluster, user: &Value, name: &str) -> Outcome<String> {
    let seen = self::user(cluster, &cluster.kubeconfig(user)?, &[]).await?;
    if seen["username"] != name {
        return Err(format!("the user is {}, not `{name}`", seen["username"]).into());
    }
    Ok(line(&seen))
}

/// Both are refused, and keyward with its own exit code for a failure.
pub async fn refused(cluster: &Cluster, user: &Value, reason: &str) -> Outcome<String> {
    let kubeconfig = cluster.kubeconfig(user)?;
    let theirs = cluster.theirs(&kubeconfig, &["auth", "whoami"]).await?;
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

/// Name and groups, for people.
pub fn line(user: &Value) -> String {
    let groups = user["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    let groups: Vec<&str> = groups.iter().filter_map(Value::as_str).collect();
    format!("{} of {}", user["username"].as_str().unwrap_or_default(), groups.join(", "))
}

/// Which credential the server says it was.
pub fn which(review: &Value) -> String {
    review["status"]["userInfo"]["extra"][WHICH][0].as_str().unwrap_or_default().to_owned()
}

fn info(mut review: Value) -> Value {
    let mut user = review["status"]["userInfo"].take();
    if let Some(extra) = user["extra"].as_object_mut() {
        extra.remove(WHICH);
    }
    user
}

/// The rows of the table. Columns are as wide as the widest value, which differs with the credential.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .filter(|line| !line.contains(WHICH))
        .map(|line| line.split_whitespace().collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_differ_by_their_words_and_not_by_the_credential() {
        let one = "ATTRIBUTE   VALUE\nUsername    tom\nExtra: authentication.kubernetes.io/credential-id  [a]\n";
        let two = "ATTRIBUTE  VALUE\nUsername   tom\nExtra: authentication.kubernetes.io/credential-id  [b]\n";
        assert_eq!(rows(one), rows(two));
        assert_ne!(rows(one), rows("ATTRIBUTE VALUE\nUsername ann\n"));
    }
}
