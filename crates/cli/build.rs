//! Tells the program which target it is built for, which only Cargo knows.

#[expect(clippy::disallowed_methods, reason = "Cargo tells a build script everything in variables")]
fn main() {
    // Nothing of the sources changes what this prints.
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(target) = std::env::var("TARGET") {
        println!("cargo::rustc-env=KEYWARD_TARGET={target}");
    }
}
