//! What the packages install: programs, manual pages, completions, the unit, documents.

use std::{fs, path::Path, process::Command};

use super::{archive, capture, compile::Built, read_error, tree::Tree};

/// The links that packages have beside the programs, all to `keyward`.
pub const LINKS: [&str; 4] = [
    "docker-credential-keyward",
    "keyward-provider-docker",
    "keyward-provider-token",
    "kubectl-keyward",
];

/// Files that are the same in every package, by name.
pub struct Documents {
    /// The texts of `licences`.
    pub licences: String,
    /// The list of `sbom`.
    pub sbom: String,
}

/// Everything but `keyward-pkcs11` and `keyward-providers`, from the directory that holds `bin`.
pub fn keyward(source: &Path, built: &Built, documents: &Documents) -> Result<Tree, String> {
    let mut tree = Tree::default();
    for program in ["keyward", "keyward-agent", "keyward-exec", "keyward-provider-node"] {
        tree.program(format!("bin/{program}"), &built.directory.join(program))?;
    }
    for link in LINKS {
        tree.link(format!("bin/{link}"), "keyward");
    }
    // Has no page and no `--version`: kubectl runs it when it completes `kubectl keyward`.
    tree.link("bin/kubectl_complete-keyward", "keyward");
    add_generated(&mut tree, &built.keyward)?;
    for page in ["docker-credential-keyward", "keyward-exec"] {
        add_page(&mut tree, page, &read(&source.join(format!("packaging/man/{page}.1")))?)?;
    }
    add_page(&mut tree, "kubectl-keyward", b".so man1/keyward.1\n")?;
    for file in ["prometheus/keyward.rules.yml", "grafana/keyward.json"] {
        tree.file(format!("share/keyward/{file}"), read(&source.join("packaging").join(file))?);
    }
    add_documents(&mut tree, "keyward", source, documents)?;
    Ok(tree)
}

/// `keyward-pkcs11` alone: the only program that cannot be static.
pub fn pkcs11(source: &Path, built: &Built, documents: &Documents) -> Result<Tree, String> {
    let name = "keyward-pkcs11";
    let mut tree = Tree::default();
    tree.program(format!("bin/{name}"), &built.directory.join(name))?;
    add_page(&mut tree, name, &read(&source.join(format!("packaging/man/{name}.1")))?)?;
    tree.file(format!("share/doc/{name}/README.md"), read(&source.join("docs/pkcs11.md"))?);
    add_documents(&mut tree, name, source, documents)?;
    Ok(tree)
}

/// `keyward-providers` with the links that it creates. It is a package of its own because few people need it, and it
/// is larger than the rest.
pub fn providers(source: &Path, built: &Built, documents: &Documents) -> Result<Tree, String> {
    let name = "keyward-providers";
    let mut tree = Tree::default();
    tree.program(format!("bin/{name}"), &built.directory.join(name))?;
    add_page(&mut tree, name, &read(&source.join(format!("packaging/man/{name}.1")))?)?;
    let links = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}"))?;
    capture(Command::new(&built.providers).arg("install").arg(links.path()))?;
    for link in names(links.path())? {
        add_page(&mut tree, &link, format!(".so man1/{name}.1\n").as_bytes())?;
        tree.link(format!("bin/{link}"), name);
    }
    for page in names(&source.join("docs"))? {
        if page.starts_with("providers") {
            let text = read(&source.join("docs").join(&page))?;
            tree.file(format!("share/doc/{name}/{page}"), text);
        }
    }
    add_documents(&mut tree, name, source, documents)?;
    Ok(tree)
}

/// The units of the user's agent and of the node's, as `keyward agent install-unit` writes them, for a `keyward` in
/// `/usr/bin`.
pub fn units(built: &Built) -> Result<Tree, String> {
    let mut tree = Tree::default();
    tree.file("lib/systemd/user/keyward-agent.service", unit(built, &[])?);
    let node = unit(built, &["--system"])?;
    let (socket, service) = node
        .strip_prefix("# /etc/systemd/system/keyward-agent.socket\n")
        .and_then(|units| units.split_once("\n# /etc/systemd/system/keyward-agent.service\n"))
        .ok_or_else(|| format!("these are not the units of the node's agent:\n{node}"))?;
    tree.file("lib/systemd/system/keyward-agent.socket", socket);
    tree.file("lib/systemd/system/keyward-agent.service", service);
    Ok(tree)
}

fn unit(built: &Built, flags: &[&str]) -> Result<String, String> {
    let keyward = &built.keyward;
    let text = capture(
        Command::new(keyward)
            .args(["agent", "install-unit", "--dry-run"])
            .args(flags)
            .env("HOME", &built.directory),
    )?;
    let own = fs::canonicalize(keyward).map_err(read_error(keyward))?;
    let own = own.display().to_string();
    if !text.contains(&own) {
        return Err(format!("the unit does not name `{own}`:\n{text}"));
    }
    Ok(text.replace(&own, "/usr/bin/keyward"))
}

/// What `keyward` writes about itself.
fn add_generated(tree: &mut Tree, keyward: &Path) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}"))?;
    capture(Command::new(keyward).arg("man-pages").arg(directory.path()))?;
    let pages = super::sums::file_names(directory.path())?;
    for file in &pages {
        let page = fs::read(directory.path().join(file)).map_err(read_error(file.as_ref()))?;
        add_page(tree, file.trim_end_matches(".1"), &page)?;
    }
    let completions = [
        ("bash", "share/bash-completion/completions/keyward"),
        ("zsh", "share/zsh/site-functions/_keyward"),
        ("fish", "share/fish/vendor_completions.d/keyward.fish"),
        ("powershell", "share/keyward/keyward.ps1"),
    ];
    for (shell, path) in completions {
        let script = capture(Command::new(keyward).args(["completions", shell]))?;
        if script.is_empty() || script.contains(&keyward.display().to_string()) {
            return Err(format!("the completions for {shell} work only on this machine"));
        }
        tree.file(path, script);
    }
    Ok(())
}

fn add_page(tree: &mut Tree, name: &str, page: &[u8]) -> Result<(), String> {
    let packed = archive::gzip(page).map_err(|e| format!("cannot compress a page: {e}"))?;
    tree.file(format!("share/man/man1/{name}.1.gz"), packed);
    Ok(())
}

fn add_documents(
    tree: &mut Tree,
    package: &str,
    source: &Path,
    documents: &Documents,
) -> Result<(), String> {
    let doc = format!("share/doc/{package}");
    for file in ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        tree.file(format!("{doc}/{file}"), read(&source.join(file))?);
    }
    tree.file(format!("{doc}/THIRD-PARTY-LICENSES.txt"), documents.licences.as_str());
    tree.file(format!("{doc}/{package}.cdx.json"), documents.sbom.as_str());
    Ok(())
}

/// The names in a directory, sorted; links, too.
fn names(directory: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(directory).map_err(read_error(directory))?;
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    let mut names: Vec<String> =
        entries.map(name).collect::<Result<_, _>>().map_err(read_error(directory))?;
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(read_error(path))
}
