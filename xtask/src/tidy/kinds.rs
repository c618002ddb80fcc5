//! The generic stages of a request know no kind by name.
//!
//! What one kind needs is a hook of that kind; a stage that compares resource names would have to be
//! read and changed for each of them.

use super::Tree;

/// The folders and files of the stages.
const GENERIC: &[&str] =
    &["crates/evenkeel-apiserver/src/pipeline", "crates/evenkeel-apiserver/src/verbs"];

pub(super) fn check(tree: &Tree) -> Vec<String> {
    within(tree, GENERIC)
}

/// The comparisons within some folders.
pub(super) fn within(tree: &Tree, folders: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    let generic = |path: &str| folders.iter().any(|folder| path.starts_with(folder));
    for source in &tree.sources {
        if !source.is_rust() || source.is_test() || !generic(&source.path) {
            continue;
        }
        for (number, line) in source.code().lines().enumerate() {
            if line.contains(".is(\"") {
                findings.push(format!(
                    "{}:{}: compares with the name of a kind: make it a hook",
                    source.path,
                    number + 1
                ));
            }
        }
    }
    findings
}
