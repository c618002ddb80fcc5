//! Every fuzz target also runs on stable Rust, as a test with fixed seeds.
//!
//! A target `fuzz/fuzz_targets/NAME.rs` includes `crates/CRATE/tests/fuzz/entries.rs` and calls
//! `entries::NAME`; so does the test `crates/CRATE/tests/fuzz.rs`.

use super::Tree;

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for target in &tree.sources {
        let Some(file) = target.path.strip_prefix("fuzz/fuzz_targets/") else { continue };
        let entry = format!("entries::{}", file.trim_end_matches(".rs"));
        if !names(&target.text, &entry) {
            findings.push(format!("{}:1: does not call {entry}", target.path));
        }
        let entries = target.text.split('"').find_map(|part| part.strip_suffix("/entries.rs"));
        let test = entries.map(|folder| format!("{}.rs", folder.trim_start_matches("../")));
        let test = tree.sources.iter().find(|source| Some(&source.path) == test.as_ref());
        if !test.is_some_and(|test| names(&test.text, &entry)) {
            findings.push(format!("{}:1: no test runs this target on stable Rust", target.path));
        }
    }
    findings
}

/// Whether a text contains the path, and not only as the start of a longer one.
fn names(text: &str, path: &str) -> bool {
    let longer = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    text.match_indices(path).any(|(at, _)| !longer(&text[at + path.len()..]))
}
