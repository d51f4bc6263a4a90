//! `cargo xtask api`: the public API of the libraries, compared with the list that is checked in.
//!
//! rustdoc can write what it knows as JSON, with a nightly compiler only. The list has a line for each
//! public item: names and arguments, no types.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{sh, shipped};

/// Compares the API with `docs/public-api.txt`, or with `--write` writes it there.
pub fn run(args: &[String]) -> Result<bool, String> {
    let nightly = Command::new("rustup")
        .args(["run", "nightly", "rustc", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !nightly.is_ok_and(|status| status.success()) {
        println!("api: not checked, because there is no nightly compiler to write rustdoc's JSON");
        return Ok(true);
    }
    let mut sections = Vec::new();
    for library in shipped::crates()?.into_iter().filter(|one| one.is_library) {
        let document = document(&library.name)?;
        let lines = Walk::new(&document)?.lines();
        let items = lines.iter().filter(|line| !line.starts_with("  ")).count();
        sections.push(format!("# {}: {items} items\n\n{}\n\n", library.name, lines.join("\n")));
    }
    let text = sections.concat();
    let path = list();
    if args.iter().any(|arg| arg == "--write") {
        fs::write(&path, text).map_err(|e| format!("cannot write `{}`: {e}", path.display()))?;
        return Ok(true);
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) =
        (known.lines().collect(), text.lines().collect());
    for line in old.difference(&new) {
        println!("- {line}");
    }
    for line in new.difference(&old) {
        println!("+ {line}");
    }
    let same = known == text;
    println!(
        "api: {}",
        if same { "as listed" } else { "changed; `cargo xtask api --write` lists it anew" }
    );
    Ok(same)
}

fn list() -> PathBuf {
    crate::root().join("docs/public-api.txt")
}

/// What rustdoc says of a crate with all its features.
fn document(name: &str) -> Result<Value, String> {
    let target = sh::target().join("api");
    let arguments = ["run", "nightly", "cargo", "rustdoc", "--quiet", "--lib", "--all-features"];
    let mut rustdoc = Command::new("rustup");
    rustdoc.current_dir(crate::root()).args(arguments).args(["--package", name, "--target-dir"]);
    rustdoc.arg(&target).args(["--", "-Z", "unstable-options", "--output-format", "json"]);
    // The compiler that runs us is not the one that is asked for.
    rustdoc.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    if !sh::run(&mut rustdoc)? {
        return Err(format!("rustdoc cannot describe `{name}`"));
    }
    let file = target.join("doc").join(format!("{}.json", name.replace('-', "_")));
    let text = fs::read(&file).map_err(|e| format!("cannot read `{}`: {e}", file.display()))?;
    serde_json::from_slice(&text).map_err(|e| format!("`{}`: {e}", file.display()))
}

/// Goes through the public items of a crate.
struct Walk<'a> {
    index: &'a Value,
    lines: Vec<String>,
    /// Types that are listed already: a second name for one gets a line, not its members again.
    seen: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    fn new(document: &'a Value) -> Result<Self, String> {
        let mut walk = Self { index: &document["index"], lines: Vec::new(), seen: BTreeSet::new() };
        let root = walk.item(&document["root"]).ok_or("rustdoc's JSON has no root")?;
        let name = root["name"].as_str().unwrap_or_default().to_owned();
        walk.module(root, &name);
        Ok(walk)
    }

    fn lines(mut self) -> Vec<String> {
        // Members stand below their type, so whole groups are sorted.
        let mut groups: Vec<Vec<String>> = Vec::new();
        for line in self.lines.drain(..) {
            match groups.last_mut() {
                Some(group) if line.starts_with("  ") => group.push(line),
                _ => groups.push(vec![line]),
            }
        }
        for group in &mut groups {
            group[1..].sort();
        }
        groups.sort();
        groups.into_iter().flatten().collect()
    }

    fn item(&self, id: &Value) -> Option<&'a Value> {
        let key = id
            .as_u64()
            .map_or_else(|| id.as_str().unwrap_or_default().to_owned(), |n| n.to_string());
        self.index.get(key)
    }

    fn items(&self, ids: &Value) -> Vec<&'a Value> {
        ids.as_array().into_iter().flatten().filter_map(|id| self.item(id)).collect()
    }

    fn module(&mut self, module: &'a Value, path: &str) {
        for item in self.items(&module["inner"]["module"]["items"]) {
            self.visit(item, path, None);
        }
    }

    fn visit(&mut self, item: &'a Value, path: &str, name: Option<&str>) {
        if item["visibility"] != "public" {
            return;
        }
        let Some((kind, inner)) = item["inner"].as_object().and_then(|inner| inner.iter().next())
        else {
            return;
        };
        if kind == "use" {
            return self.reexport(inner, path);
        }
        let name = name.or(item["name"].as_str()).unwrap_or_default();
        let path = format!("{path}::{name}");
        let arguments = if kind == "function" { arguments(inner) } else { String::new() };
        self.lines.push(format!("{path}{arguments} ({kind})"));
        if kind == "module" {
            return self.module(item, &path);
        }
        if !self.seen.insert(item["id"].to_string()) {
            return;
        }
        for field in self.items(&inner["kind"]["plain"]["fields"]) {
            self.member(field, "field");
        }
        for variant in self.items(&inner["variants"]) {
            self.lines.push(format!("  variant {}", variant["name"].as_str().unwrap_or_default()));
        }
        if kind == "trait" {
            for required in self.items(&inner["items"]) {
                self.lines.push(format!("  {}", signature(required)));
            }
        }
        let mut traits = Vec::new();
        for block in self.items(&inner["impls"]) {
            let block = &block["inner"]["impl"];
            if block["is_synthetic"] == true || !block["blanket_impl"].is_null() {
                continue;
            }
            match block["trait"]["path"].as_str() {
                Some(name) => traits.push(name.rsplit("::").next().unwrap_or(name).to_owned()),
                None => {
                    for method in self.items(&block["items"]) {
                        self.member(method, "");
                    }
                }
            }
        }
        traits.sort();
        traits.dedup();
        if !traits.is_empty() {
            self.lines.push(format!("  implements {}", traits.join(", ")));
        }
    }

    fn reexport(&mut self, inner: &'a Value, path: &str) {
        match self.item(&inner["id"]) {
            Some(module) if inner["is_glob"] == true => self.module(module, path),
            Some(item) => self.visit(item, path, inner["name"].as_str()),
            // Another crate's.
            None => self.lines.push(format!(
                "{path}::{} (from {})",
                inner["name"].as_str().unwrap_or_default(),
                inner["source"].as_str().unwrap_or_default(),
            )),
        }
    }

    fn member(&mut self, item: &Value, word: &str) {
        if item["visibility"] == "public" {
            let line = format!("  {word} {}", signature(item));
            self.lines.push(format!("  {}", line.trim()));
        }
    }
}

/// A function's name and arguments, or any other item's name.
fn signature(item: &Value) -> String {
    let name = item["name"].as_str().unwrap_or_default();
    match item["inner"].get("function") {
        Some(function) => format!("fn {name}{}", arguments(function)),
        None => name.to_owned(),
    }
}

fn arguments(function: &Value) -> String {
    let inputs = function["sig"]["inputs"].as_array().into_iter().flatten();
    let names: Vec<&str> = inputs.map(|input| input[0].as_str().unwrap_or_default()).collect();
    format!("({})", names.join(", "))
}
