//! Checks of the source tree that the compiler does not make: `cargo xtask tidy`.
//!
//! Each rule returns its findings as `path:line: text`. Exceptions are data, one per line with a
//! reason, in `xtask/tidy`; an exception that no longer applies is a finding itself.

mod fuzz;

mod graph;

mod headers;

mod kinds;

mod modules;

mod packages;

mod sizes;

mod source;

mod words;

#[cfg(test)]
mod tests;

use std::error::Error;
use std::path::{Path, PathBuf};

use source::Source;

/// The crates and modules whose parts must not depend on each other in a cycle.
const LAYERED: &[&str] =
    &["evenkeel", "evenkeel::cache", "evenkeel-apiserver", "evenkeel-apiserver::pipeline"];

type Rule = fn(&Tree) -> Vec<String>;

const RULES: &[(&str, Rule)] = &[
    ("headers", headers::check),
    ("sizes", sizes::check),
    ("words", words::check),
    ("kinds", kinds::check),
    ("modules", modules::check),
    ("fuzz", fuzz::check),
    ("packages", packages::check),
];

/// All source files and documents of the workspace, and the folder they are in.
struct Tree {
    root: PathBuf,
    sources: Vec<Source>,
}

impl Tree {
    /// The lines of a file in `xtask/tidy` that are neither empty nor comments.
    fn list(&self, name: &str) -> Vec<String> {
        let path = self.root.join("xtask/tidy").join(name);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    }
}

/// Runs all rules, or prints the module graph of one crate.
///
/// # Errors
/// When a file cannot be read, or a rule has findings.
#[expect(clippy::print_stdout, reason = "a command line tool prints its results")]
pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent")?;
    let tree = Tree { root: root.to_owned(), sources: source::read(root)? };
    match arguments {
        [] => {}
        [flag, name] if flag == "--graph" => {
            print!("{}", modules::of(&tree, name).picture());
            return Ok(());
        }
        _ => return Err("usage: tidy [--graph CRATE[::MODULE]]".into()),
    }
    let mut count = 0;
    for (name, rule) in RULES {
        let findings = rule(&tree);
        println!("{name}: {}", if findings.is_empty() { "ok" } else { "FAILED" });
        findings.iter().for_each(|finding| println!("  {finding}"));
        count += findings.len();
    }
    match count {
        0 => Ok(()),
        count => Err(format!("{count} findings").into()),
    }
}
