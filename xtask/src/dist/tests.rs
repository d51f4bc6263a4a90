//! The packages themselves, made of small stand-ins for the programs; pages, completions and unit come from the real
//! one. `cargo xtask dist --test` installs packages with the real programs.

use std::{
    collections::BTreeSet,
    fs,
    io::Read as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use flate2::read::GzDecoder;
use keyward_testing::plugin;
use serde_json::Value;
use tempfile::TempDir;

use super::{
    capture,
    compile::{self, Built, PROGRAMS},
    contents::LINKS,
    pack,
    package::Release,
    sums,
};

/// All packages, made once.
fn packages() -> &'static Path {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    MADE.get_or_init(make).path()
}

fn make() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let programs = place.path().join("programs");
    fs::create_dir(&programs).unwrap();
    for program in PROGRAMS {
        // Only the signer is dynamic.
        let symbol = if program == "keyward-pkcs11" { "GLIBC_2.34" } else { "" };
        fs::write(programs.join(program), format!("{program} {symbol}\n")).unwrap();
    }
    let built = Built {
        directory: programs,
        keyward: plugin::keyward().to_owned(),
        providers: plugin::providers().to_owned(),
        target: compile::host().unwrap(),
    };
    let root = fs::canonicalize(crate::root()).unwrap();
    pack(&root, &built, &place.path().join("dist"), &release()).unwrap();
    place
}

fn release() -> Release {
    let mut release = Release::find(crate::root()).unwrap();
    release.time = 1_700_000_000;
    release
}

fn package(start: &str, end: &str) -> PathBuf {
    let dist = packages().join("dist");
    let names = sums::file_names(&dist).unwrap();
    let found: Vec<_> =
        names.iter().filter(|name| name.starts_with(start) && name.ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{start}…{end} among {names:?}");
    dist.join(found[0])
}

fn tarball() -> PathBuf {
    package(&format!("keyward-{}-", release().version), ".tar.gz")
}

/// The files of the tarball, without the first directory, with their contents.
fn in_tarball() -> Vec<(String, Vec<u8>)> {
    let bytes = fs::read(tarball()).unwrap();
    let mut archive = tar::Archive::new(GzDecoder::new(&bytes[..]));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).unwrap();
        (path.split_once('/').unwrap().1.to_owned(), contents)
    });
    entries.collect()
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut text).unwrap();
    text
}

#[test]
fn packages_that_are_made_twice_have_the_same_bytes() {
    let again = make();
    let [one, other] = [packages(), again.path()].map(|place| place.join("dist"));
    let names = sums::file_names(&one).unwrap();
    assert_eq!(names, sums::file_names(&other).unwrap());
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        assert!(
            fs::read(one.join(&name)).unwrap() == fs::read(other.join(&name)).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn the_tarball_has_every_program_and_a_page_for_each() {
    let files = in_tarball();
    let has = |path: &str| files.iter().any(|(file, _)| file == path);
    for program in PROGRAMS.into_iter().chain(LINKS) {
        assert!(has(&format!("bin/{program}")), "{program}");
        assert!(has(&format!("share/man/man1/{program}.1.gz")), "the page of {program}");
    }
    for link in ["keyward-eks", "keyward-oidc", "docker-credential-keyward-ecr"] {
        assert!(has(&format!("bin/{link}")), "{link}");
        assert!(has(&format!("share/man/man1/{link}.1.gz")), "the page of {link}");
    }
    assert!(!has("bin/aws-iam-authenticator"), "only people who ask for it replace other tools");
    assert!(has("bin/kubectl_complete-keyward"), "what completes `kubectl keyward`");
    for file in ["prometheus/keyward.rules.yml", "grafana/keyward.json"] {
        assert!(has(&format!("share/keyward/{file}")), "{file}");
    }
    let help = capture(Command::new(plugin::keyward()).arg("--help")).unwrap();
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = commands.lines().filter(|line| !line.starts_with("   "));
    let names: Vec<_> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(
            has(&format!("share/man/man1/keyward-{name}.1.gz")),
            "the page of `keyward {name}`"
        );
    }
    for shell in ["bash-completion", "zsh", "fish"] {
        assert!(
            files.iter().any(|(file, _)| file.starts_with(&format!("share/{shell}/"))),
            "{shell}"
        );
    }
    assert!(has("share/keyward/keyward.ps1"));
}

#[test]
fn every_page_is_read_by_man_without_a_warning() {
    let place = tempfile::tempdir().unwrap();
    let mut count = 0;
    for (path, bytes) in in_tarball() {
        let name = path.strip_prefix("share/man/man1/").filter(|name| !name.is_empty());
        let Some(name) = name else { continue };
        let page = unpacked(&bytes);
        // A page that only names another one is found in its tree alone.
        if page.starts_with(b".so ") {
            continue;
        }
        let file = place.path().join(name.trim_end_matches(".gz"));
        fs::write(&file, page).unwrap();
        let output = Command::new("man")
            .args(["--warnings", "--local-file"])
            .arg(&file)
            .env("MANPAGER", "cat")
            .env("MANWIDTH", "100")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("`man` (Debian package man-db)");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{name}: {errors}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("SYNOPSIS") && text.contains("DESCRIPTION"), "{name}: {text}");
        count += 1;
    }
    assert!(count > 20, "only {count} pages");
}

/// The pages that no program writes must keep up with its help.
#[test]
fn a_page_that_was_written_by_hand_names_every_flag_and_variable_of_the_help() {
    let place = tempfile::tempdir().unwrap();
    for name in ["keyward-exec", "docker-credential-keyward"] {
        symlink(plugin::keyward(), place.path().join(name)).unwrap();
    }
    symlink(plugin::pkcs11(), place.path().join("keyward-pkcs11")).unwrap();
    symlink(plugin::providers(), place.path().join("keyward-providers")).unwrap();
    let pkcs11 = ["", "list", "test", "keygen", "csr", "import"];
    let cases: [(&str, &[&str]); 4] = [
        ("keyward-exec", &[""]),
        ("keyward-pkcs11", &pkcs11),
        ("keyward-providers", &["", "install"]),
        ("docker-credential-keyward", &[""]),
    ];
    for (program, commands) in cases {
        let page = crate::root().join(format!("packaging/man/{program}.1"));
        let page = fs::read_to_string(page).unwrap().replace('\\', "");
        let mut seen = 0;
        for command in commands {
            let mut ask = Command::new(place.path().join(program));
            ask.args(Some(command).filter(|command| !command.is_empty())).arg("--help");
            let help = capture(&mut ask).unwrap();
            let words: BTreeSet<&str> = help
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
                .filter(|word| word.len() > 2)
                .filter(|word| word.starts_with("--") || word.starts_with("KEYWARD_"))
                .collect();
            for word in words {
                assert!(page.contains(word), "the page of {program} does not mention {word}");
                seen += 1;
            }
        }
        assert!(seen > 0, "the help of {program} names nothing");
    }
}

#[test]
fn debians_own_program_reads_the_deb() {
    let deb = package("keyward_", ".deb");
    let info = capture(Command::new("dpkg-deb").arg("--info").arg(&deb)).unwrap();
    assert!(info.contains(" Package: keyward\n") && !info.contains("Depends"), "{info}");
    let signer = package("keyward-pkcs11_", ".deb");
    let info = capture(Command::new("dpkg-deb").arg("--info").arg(&signer)).unwrap();
    assert!(info.contains(" Depends: libc6 (>= 2.34), libgcc-s1\n"), "{info}");
    let contents = capture(Command::new("dpkg-deb").arg("--contents").arg(&deb)).unwrap();
    let line = |path: &str| contents.lines().find(|line| line.contains(path)).unwrap_or_default();
    assert!(line("usr/bin/keyward").starts_with("-rwxr-xr-x root/root"), "{contents}");
    assert!(line("usr/bin/kubectl-keyward").ends_with(" -> keyward"), "{contents}");
    for unit in [
        "user/keyward-agent.service",
        "system/keyward-agent.service",
        "system/keyward-agent.socket",
    ] {
        assert!(!line(&format!("usr/lib/systemd/{unit}")).is_empty(), "{contents}");
    }
    assert!(!line("usr/share/zsh/vendor-completions/_keyward").is_empty(), "{contents}");
}

#[test]
fn the_providers_are_a_package_of_their_own_with_their_links() {
    let deb = package("keyward-providers_", ".deb");
    let contents = capture(Command::new("dpkg-deb").arg("--contents").arg(&deb)).unwrap();
    let line = |path: &str| contents.lines().find(|line| line.contains(path)).unwrap_or_default();
    assert!(line("usr/bin/keyward-providers").starts_with("-rwxr-xr-x root/root"), "{contents}");
    assert!(line("usr/bin/keyward-eks").ends_with(" -> keyward-providers"), "{contents}");
    assert!(!line("usr/share/doc/keyward-providers/providers-oidc.md").is_empty(), "{contents}");
    let file = format!("keyward-providers-{}", release().version);
    let rpm = rpm::Package::open(package(&file, ".rpm")).unwrap();
    let files = rpm.metadata.get_file_paths().unwrap();
    assert!(files.contains(&PathBuf::from("/usr/bin/keyward-ecr")), "{files:?}");
}

#[test]
fn the_unit_starts_the_installed_program() {
    let deb = package("keyward_", ".deb");
    let place = tempfile::tempdir().unwrap();
    capture(Command::new("dpkg-deb").arg("--extract").arg(&deb).arg(place.path())).unwrap();
    for (name, command) in [
        ("user/keyward-agent.service", "ExecStart=\"/usr/bin/keyward\" agent"),
        ("system/keyward-agent.service", "ExecStart=\"/usr/bin/keyward\" agent --system"),
        ("system/keyward-agent.socket", "ListenStream=/run/keyward/agent.sock"),
    ] {
        let unit = place.path().join("usr/lib/systemd").join(name);
        let unit = fs::read_to_string(unit).unwrap();
        assert!(unit.lines().any(|line| line == command), "{unit}");
        assert!(unit.starts_with("[Unit]\n") && unit.ends_with('\n'), "{unit}");
    }
}

#[test]
fn the_library_for_rpms_reads_what_it_wrote() {
    let rpm =
        rpm::Package::open(package(&format!("keyward-{}", release().version), ".rpm")).unwrap();
    assert_eq!(rpm.metadata.get_name().unwrap(), "keyward");
    let files = rpm.metadata.get_file_paths().unwrap();
    let own = ["keyward", "keyward-agent", "keyward-exec", "keyward-provider-node"];
    for program in own.into_iter().chain(LINKS) {
        let path = Path::new("/usr/bin").join(program);
        assert!(files.contains(&path), "{program} in {files:?}");
    }
}

#[test]
fn another_program_reads_the_image() {
    let image = package(&format!("keyward-{}-", release().version), ".oci.tar");
    let mut inspect = Command::new("skopeo");
    inspect.args(["inspect", "--config"]).arg(format!("oci-archive:{}", image.display()));
    let config: Value = serde_json::from_str(&capture(&mut inspect).unwrap()).unwrap();
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/keyward");
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");
}

#[test]
fn the_bill_of_materials_names_every_crate_that_it_refers_to() {
    let sbom = fs::read(package("keyward-", ".cdx.json")).unwrap();
    let sbom: Value = serde_json::from_slice(&sbom).unwrap();
    assert_eq!((&sbom["bomFormat"], &sbom["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let components = sbom["components"].as_array().unwrap();
    let mut known: BTreeSet<&str> =
        components.iter().map(|component| component["bom-ref"].as_str().unwrap()).collect();
    known.insert(sbom["metadata"]["component"]["bom-ref"].as_str().unwrap());
    assert!(known.iter().any(|name| name.starts_with("pkg:cargo/rustls@")), "{known:?}");
    // Test code and what only runs at build time.
    for absent in ["keyward-testing", "kube", "cc", "serde_derive"] {
        let start = format!("pkg:cargo/{absent}@");
        assert!(!known.iter().any(|name| name.starts_with(&start)), "{absent}");
    }
    for edge in sbom["dependencies"].as_array().unwrap() {
        let ends = edge["dependsOn"].as_array().unwrap().iter().chain([&edge["ref"]]);
        for end in ends {
            assert!(known.contains(end.as_str().unwrap()), "{end}");
        }
    }
    let licences = in_tarball();
    let licences =
        licences.iter().find(|(path, _)| path.ends_with("keyward/THIRD-PARTY-LICENSES.txt"));
    let licences = String::from_utf8(licences.unwrap().1.clone()).unwrap();
    for component in components {
        let (name, version) =
            (component["name"].as_str().unwrap(), component["version"].as_str().unwrap());
        assert!(
            component["licenses"][0]["expression"].as_str().is_some_and(|text| !text.is_empty()),
            "{name}"
        );
        if component.get("hashes").is_some() {
            assert!(licences.contains(&format!("  {name} {version}: ")), "{name}");
        }
    }
}

/// Krew refuses an archive with links, and a manifest whose sum is wrong.
#[test]
fn the_archive_for_krew_has_plain_files_and_the_sum_of_the_manifest() {
    let archive = fs::read(package("keyward-krew-", ".tar.gz")).unwrap();
    let mut names = Vec::new();
    for entry in tar::Archive::new(GzDecoder::new(&archive[..])).entries().unwrap() {
        let entry = entry.unwrap();
        assert!(entry.header().entry_type().is_file());
        names.push(entry.path().unwrap().to_string_lossy().into_owned());
    }
    assert!(names.contains(&"keyward".to_owned()), "{names:?}");
    let manifest = fs::read_to_string(package("keyward.yaml", "")).unwrap();
    assert!(manifest.contains(&format!("sha256: {}\n", sums::sha256(&archive))), "{manifest}");
    let formula = fs::read_to_string(package("keyward.rb", "")).unwrap();
    let sum = sums::sha256(&fs::read(tarball()).unwrap());
    assert!(formula.contains(&format!("sha256 \"{sum}\"\n")), "{formula}");
}
