//! The command lines of the pages: the programs themselves say whether they accept them.
//!
//! A command line is code in a page that starts with one of our programs, `kubectl keyward` or `cargo`: a
//! line of a shell block, or a word in backticks. It is not run. Our programs get its words with
//! `--help` after them, so they report a command or flag that they do not know, and otherwise only
//! print their help.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::{Command, Stdio},
};

use super::{Fences, files, outside_code, read};
use crate::{sh, shipped, usage_of};

/// Command lines of the pages that nobody could run.
pub(super) fn wrong_commands(root: &Path) -> Result<Vec<String>, String> {
    let mut lines: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
    for page in files(root, "md")? {
        let name = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        for line in command_lines(&read(&page)?) {
            lines.entry(line).or_default().insert(name.clone());
        }
    }
    let programs = Programs::build(lines.keys())?;
    let mut wrong = Vec::new();
    for (words, pages) in &lines {
        let fault = match words[0].as_str() {
            "cargo" => cargo_fault(root, words),
            _ => programs.fault(words)?,
        };
        if let Some(fault) = fault {
            let pages = pages.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            wrong.push(format!("{pages}: `{}`: {fault}", words.join(" ")));
        }
    }
    Ok(wrong)
}

/// The command lines in a page that are about us, as words, the first of which is the program.
fn command_lines(page: &str) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = shell_lines(page).iter().map(|line| words(line)).collect();
    // A span may go on in the next line, but not in the next paragraph.
    let prose = outside_code(page).collect::<Vec<_>>().join("\n");
    for paragraph in prose.split("\n\n") {
        let spans = paragraph.split('`').skip(1).step_by(2);
        found.extend(spans.map(|span| words(&span.replace("\\|", "|"))));
    }
    found.iter().filter_map(|words| ours(words)).collect()
}

/// The lines of a page's shell blocks, without prompts; lines that are continued are joined.
fn shell_lines(page: &str) -> Vec<String> {
    let mut code = Fences::default();
    let mut found: Vec<String> = Vec::new();
    let mut continued = false;
    for line in page.lines() {
        let inside = code.language;
        if !code.covers(line) || inside != code.language {
            continue;
        }
        let line = match inside {
            _ if continued => Some(line),
            Some("console") => line.trim_start().strip_prefix("$ "),
            Some("sh" | "bash") => Some(line),
            _ => None,
        };
        let Some(line) = line else { continue };
        let (text, more) = match line.strip_suffix('\\') {
            Some(text) => (text, true),
            None => (line, false),
        };
        match found.last_mut() {
            Some(last) if continued => last.push_str(text),
            _ => found.push(text.to_owned()),
        }
        continued = more;
    }
    found
}

/// The words of the first command in a line, as a shell would split them, for what pages contain.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut quote = None;
    let mut fresh = true;
    for c in line.chars() {
        match (c, quote) {
            (c, Some(mark)) if c == mark => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                if fresh {
                    words.push(String::new());
                }
                fresh = false;
            }
            (c, None) if c.is_whitespace() => fresh = true,
            ('#', None) if fresh => break,
            ('|' | ';' | '&' | '<' | '>', None) => break,
            (c, _) => {
                if fresh {
                    words.push(String::new());
                }
                fresh = false;
                if let Some(word) = words.last_mut() {
                    word.push(c);
                }
            }
        }
    }
    words
}

/// The words from the program on, if it is one of ours, without what stands for something else: `…`
/// and the brackets around what may be left out.
fn ours(words: &[String]) -> Option<Vec<String>> {
    let mut rest = words;
    while let [first, more @ ..] = rest
        && (first == "sudo" || first.contains('='))
    {
        rest = more;
    }
    match rest {
        [kubectl, keyward, ..] if kubectl == "kubectl" && keyward == "keyward" => rest = &rest[1..],
        // A name alone is not a command line.
        [program, _, ..] if program.starts_with("keyward") || program == "cargo" => {}
        _ => return None,
    }
    if !rest[0].bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return None;
    }
    let plain = rest.iter().map(|word| {
        word.trim_start_matches('[').trim_end_matches([']', '…', ',']).trim_end_matches("...")
    });
    Some(plain.filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

/// Our programs, built as the tests build them.
struct Programs(BTreeSet<String>);

/// A program that has a name for each of its providers: `keyward-eks` is its `eks`.
const PROVIDERS: &str = "keyward-providers";

impl Programs {
    fn build<'a>(lines: impl Iterator<Item = &'a Vec<String>>) -> Result<Self, String> {
        let all = shipped::programs()?;
        let named: BTreeSet<&str> = lines.map(|words| words[0].as_str()).collect();
        let mut known: BTreeSet<String> =
            all.iter().filter(|name| named.contains(name.as_str())).cloned().collect();
        if named.iter().any(|name| name.starts_with("keyward-") && !all.contains(*name)) {
            known.insert(PROVIDERS.to_owned());
        }
        let mut build = sh::cargo();
        build.args(["build", "--quiet", "--workspace"]);
        build.args(known.iter().flat_map(|name| ["--bin", name]));
        if !known.is_empty() && !sh::run(&mut build)? {
            return Err("the programs that the pages name cannot be built".into());
        }
        Ok(Self(known))
    }

    /// Why the program does not accept these words.
    fn fault(&self, words: &[String]) -> Result<Option<String>, String> {
        let (program, words) = (words[0].as_str(), &words[1..]);
        let (program, provider) = match program.strip_prefix("keyward-") {
            Some(provider) if !self.0.contains(program) => (PROVIDERS, Some(provider.to_owned())),
            None if !self.0.contains(program) => {
                return Ok(Some("there is no such program".into()));
            }
            _ => (program, None),
        };
        let mut first = None;
        for words in variants(words) {
            let words: Vec<_> = provider.iter().cloned().chain(words).collect();
            match Self::ask(program, &words)? {
                None => return Ok(None),
                fault => first = first.or(fault),
            }
        }
        Ok(first)
    }

    fn ask(program: &str, words: &[String]) -> Result<Option<String>, String> {
        let path = sh::target().join("debug").join(program);
        let output = Command::new(&path)
            .args(words)
            .arg("--help")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("cannot start `{}`: {e}", path.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let fault = said.lines().find(|line| !line.is_empty()).unwrap_or("it fails");
        Ok((!output.status.success()).then(|| fault.trim_start_matches("error: ").to_owned()))
    }
}

/// What a page may mean by these words: `IMAGE` and `N` stand for a value, which may be missing, and so
/// may that of the last flag.
fn variants(words: &[String]) -> Vec<Vec<String>> {
    // What follows is for another program.
    let words = words.split(|word| word == "--").next().unwrap_or_default();
    // `help` takes no `--help`, and does the same.
    let words = words.strip_prefix(&["help".to_owned()]).unwrap_or(words);
    let mut all = vec![words.to_vec()];
    if words.iter().any(|word| is_placeholder(word)) {
        all.push(words.iter().filter(|word| !is_placeholder(word)).cloned().collect());
        for value in EXAMPLES {
            let fill = |word: &String| {
                if is_placeholder(word) { value.to_owned() } else { word.clone() }
            };
            all.push(words.iter().map(fill).collect());
        }
    } else if words.last().is_some_and(|word| word.starts_with('-')) {
        let complete = |value: &str| words.iter().cloned().chain([value.to_owned()]).collect();
        all.extend(EXAMPLES.into_iter().map(complete));
    }
    all
}

/// Values that flags take.
const EXAMPLES: [&str; 3] = ["/x", "1", "127.0.0.1:1"];

/// Whether a word stands for another: `IMAGE`, `N`.
fn is_placeholder(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
}

/// Why these words after `cargo` do not work in this repository.
fn cargo_fault(root: &Path, words: &[String]) -> Option<String> {
    let after = |flag: &str| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1).map(String::as_str)
    };
    match words.get(1)?.as_str() {
        "xtask" => xtask_fault(words.get(2)?, &words[3..]),
        "run" => {
            let (package, example) = (after("-p")?, after("--example")?);
            let directory = package.strip_prefix("keyward-").unwrap_or(package);
            let exists = ["crates", "plugins"].iter().any(|above| {
                let examples = root.join(above).join(directory).join("examples");
                examples.join(format!("{example}.rs")).exists()
                    || examples.join(example).join("main.rs").exists()
            });
            (!exists).then(|| format!("`{package}` has no example `{example}`"))
        }
        "install" | "build" => {
            let path = after("--path")?;
            let exists = root.join(path).join("Cargo.toml").exists();
            (!exists).then(|| format!("`{path}` is not a crate"))
        }
        _ => None,
    }
}

/// Why `cargo xtask` does not take this command, or these flags.
fn xtask_fault(command: &str, rest: &[String]) -> Option<String> {
    if is_placeholder(command) {
        return None;
    }
    let Some(usage) = usage_of(command) else {
        return Some(format!("xtask has no command `{command}`"));
    };
    let flags = rest.iter().filter(|word| word.starts_with("--"));
    let known: Vec<&str> = usage.split(|c: char| c.is_whitespace() || "[]".contains(c)).collect();
    let unknown = flags.into_iter().find(|flag| !known.contains(&flag.as_str()))?;
    Some(format!("`{command}` has no flag `{unknown}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_line_of_a_page_is_one_that_the_program_accepts() {
        assert_eq!(wrong_commands(crate::root()).unwrap(), [""; 0]);
    }

    #[test]
    fn a_command_line_that_the_program_does_not_accept_is_reported() {
        let place = tempfile::tempdir().unwrap();
        let write = super::super::writer(place.path());
        write(
            "a.md",
            "`keyward plna` `keyward plan --contxt x` `keyward plan --context\nx` `keyward-nobody x`\n\n\
             | `keyward completions SHELL \\| x` | `keyward help COMMAND` | `keyward get --raw PATH` |\n\
             ```console\n$ keyward proxy --port abc  # why\nkeyward output\n```\n\
             ```sh\nKEYWARD_AGENT=off keyward get \\\n  --rw /version\n```\n\
             ```text\nkeyward nothing\n```\n\
             `cargo xtask nothing` `cargo xtask dist --verify --nothing` `cargo xtask test`\n",
        );
        let wrong = wrong_commands(place.path()).unwrap();
        let shown = wrong.join("\n");
        for part in [
            "a.md: `keyward plna`: ",
            "`keyward plan --contxt x`: ",
            "`keyward-nobody x`: `keyward-providers` has no provider `nobody`",
            "`keyward proxy --port abc`: ",
            "`keyward get --rw /version`: ",
            "xtask has no command `nothing`",
            "`dist` has no flag `--nothing`",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
        assert_eq!(wrong.len(), 7, "{shown}");
    }

    #[test]
    fn a_line_is_split_as_a_shell_does() {
        let line = "keyward-pkcs11 keygen 'pkcs11:token=a b;x'  \"\" # why";
        assert_eq!(words(line), ["keyward-pkcs11", "keygen", "pkcs11:token=a b;x", ""]);
        assert_eq!(words("a b | c"), ["a", "b"]);
    }
}
