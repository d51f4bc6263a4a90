//! A `.deb`: an `ar` archive of three members.

use std::{fmt::Write as _, io};

use super::{
    archive,
    package::{Package, Release},
    tree::Tree,
};

/// The file's name, as Debian names packages.
pub fn file_name(package: &Package, release: &Release) -> String {
    format!("{}_{}_{}.deb", package.name, release.version, release.go_arch())
}

/// The package's bytes.
pub fn build(package: &Package, release: &Release) -> io::Result<Vec<u8>> {
    let mut tree = package.tree.clone();
    // Where Debian's zsh looks.
    tree.move_directory("share/zsh/site-functions", "share/zsh/vendor-completions");
    let doc = format!("share/doc/{}", package.name);
    tree.file(format!("{doc}/copyright"), copyright(release));
    let mut control = Tree::default();
    control.file("control", control_file(package, release, tree.size()));
    let control = archive::gzip(&archive::tar(&control, release.time)?)?;
    let data = archive::gzip(&archive::tar(&tree.under("usr"), release.time)?)?;
    let members: [(&str, &[u8]); 3] =
        [("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.gz", &data)];
    Ok(ar(&members, release.time))
}

fn control_file(package: &Package, release: &Release, size: u64) -> String {
    let mut text = format!(
        "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: Keyward <{}>\nInstalled-Size: {}\n\
         Section: admin\nPriority: optional\nHomepage: {}\n",
        package.name,
        release.version,
        release.go_arch(),
        MAINTAINER,
        size.div_ceil(1024),
        release.repository,
    );
    if let Some(libraries) = &package.libraries {
        let _ = writeln!(text, "Depends: libc6 (>= 2.{}), libgcc-s1", libraries.glibc);
    }
    let _ = write!(text, "Description: {}\n {}\n", package.summary, package.description);
    text
}

/// Debian asks for an address. The project has none but its repository.
const MAINTAINER: &str = "keyward@example.invalid";

fn copyright(release: &Release) -> String {
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: keyward\n\
         Source: {}\n\
         \n\
         Files: *\n\
         Copyright: the Keyward authors\n\
         License: Expat or Apache-2.0\n\
         Comment: LICENSE-MIT and LICENSE-APACHE beside this file are the texts;\n \
         THIRD-PARTY-LICENSES.txt has those of the libraries inside the programs.\n",
        release.repository
    )
}

/// The archive format of Unix: a magic line, then each member behind a header of 60 characters, padded to
/// an even length.
fn ar(members: &[(&str, &[u8])], time: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let size = bytes.len();
        let header = format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 100_644);
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(bytes);
        if size % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}
