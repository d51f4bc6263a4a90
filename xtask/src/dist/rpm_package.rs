//! An `.rpm`.

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

use super::{
    archive::LEVEL,
    package::{Package, Release},
    tree::Entry,
};

/// The file's name, as rpm names packages.
pub fn file_name(package: &Package, release: &Release) -> String {
    format!("{}-{}-1.{}.rpm", package.name, release.version, release.arch)
}

/// The package's bytes.
pub fn build(package: &Package, release: &Release) -> Result<Vec<u8>, String> {
    package_of(package, release).map_err(|e| format!("cannot build the rpm: {e}"))
}

fn package_of(package: &Package, release: &Release) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let time = u32::try_from(release.time)?;
    let config =
        BuildConfig::v4().source_date(time).compression(CompressionWithLevel::Gzip(LEVEL.level()));
    let mut builder = PackageBuilder::new(
        package.name,
        &release.version,
        &release.license,
        &release.arch,
        package.summary,
    );
    builder
        .using_config(config)
        .release("1")
        .url(&release.repository)
        .description(package.description)
        // The name of the machine would differ on the next one.
        .build_host("localhost");
    let doc = format!("usr/share/doc/{}", package.name);
    builder.with_dir_entry(FileOptions::dir(format!("/{doc}")).permissions(0o755))?;
    for (path, entry) in package.tree.under("usr").entries() {
        let place = format!("/{path}");
        match entry {
            Entry::File(bytes, mode) => {
                let mut options = FileOptions::new(place).permissions(u16::try_from(*mode)?);
                if path.starts_with(&doc) {
                    options = options.doc();
                }
                builder.with_file_contents(bytes.clone(), options)?;
            }
            Entry::Link(to) => {
                builder.with_symlink(FileOptions::symlink(place, to))?;
            }
            Entry::Directory(..) => {
                return Err(format!("`{place}`: only the image has such").into());
            }
        }
    }
    if let Some(libraries) = &package.libraries {
        // As rpm's own generator names what a program loads.
        builder
            .requires(Dependency::any(format!("libc.so.6(GLIBC_2.{})(64bit)", libraries.glibc)))
            .requires(Dependency::any("libgcc_s.so.1()(64bit)"));
    }
    let mut bytes = Vec::new();
    builder.build()?.write(&mut bytes)?;
    Ok(bytes)
}
