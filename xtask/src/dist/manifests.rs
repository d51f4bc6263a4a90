//! The manifests of krew and Homebrew, from their templates in `packaging/`.

use std::{fs, path::Path};

use super::{
    archive, compile::Built, contents::Documents, package::Release, put, read_error, sums::sha256,
    tree::Tree,
};

/// Writes both, and the archive for krew.
pub fn write(
    source: &Path,
    out: &Path,
    release: &Release,
    built: &Built,
    documents: &Documents,
    tarball_name: &str,
    tarball: &[u8],
) -> Result<(), String> {
    let krew = krew_archive(source, release, built, documents)?;
    let krew_name = format!("keyward-krew-{}-linux-{}.tar.gz", release.version, release.go_arch());
    put(out, &krew_name, &krew)?;
    let url = |name: &str| {
        format!("{}/releases/download/v{}/{name}", release.repository, release.version)
    };
    let values = [
        ("version", release.version.clone()),
        ("repository", release.repository.clone()),
        ("license", release.license.clone()),
        ("arch", release.go_arch().to_owned()),
        ("krew_url", url(&krew_name)),
        ("krew_sha256", sha256(&krew)),
        ("url", url(&format!("{tarball_name}.tar.gz"))),
        ("sha256", sha256(tarball)),
    ];
    for name in ["krew/keyward.yaml", "homebrew/keyward.rb"] {
        let path = source.join("packaging").join(name);
        let template = fs::read_to_string(&path).map_err(read_error(&path))?;
        let file = name.rsplit('/').next().unwrap_or(name);
        put(out, file, fill(&template, &values)?.as_bytes())?;
    }
    Ok(())
}

/// Krew unpacks no links and leaves the name of the plugin to itself, so it gets only the programs.
fn krew_archive(
    source: &Path,
    release: &Release,
    built: &Built,
    documents: &Documents,
) -> Result<Vec<u8>, String> {
    let mut tree = Tree::default();
    for program in ["keyward", "keyward-agent", "keyward-exec"] {
        tree.program(program, &built.directory.join(program))?;
    }
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let path = source.join(file);
        tree.file(file, fs::read(&path).map_err(read_error(&path))?);
    }
    tree.file("THIRD-PARTY-LICENSES.txt", documents.licences.as_str());
    archive::tar(&tree, release.time)
        .and_then(|bytes| archive::gzip(&bytes))
        .map_err(|e| format!("cannot pack: {e}"))
}

/// Replaces `{{name}}` by its value.
fn fill(template: &str, values: &[(&str, String)]) -> Result<String, String> {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("{{{{{name}}}}}"), value);
    }
    match text.split_once("{{") {
        Some((_, rest)) => {
            Err(format!("the template asks for `{}`", rest.lines().next().unwrap_or(rest)))
        }
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_asks_for_something_unknown_is_refused() {
        let values = [("version", "1.2.3".to_owned())];
        assert_eq!(fill("v{{version}}!", &values), Ok("v1.2.3!".to_owned()));
        assert!(fill("{{verison}}", &values).is_err());
    }
}
