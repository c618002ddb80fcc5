//! The generic parts of a request contain no names of kinds.
//!
//! What one kind needs is a hook of that kind, or a fact of `evenkeel-kinds`; a stage that compares
//! resource names would have to be read and changed for each of them. The names are those of the
//! table of built-in resources.

use std::collections::BTreeSet;

use super::Tree;

/// The folders and files of the generic parts.
const GENERIC: &[&str] = &[
    "crates/evenkeel-apiserver/src/codec.rs",
    "crates/evenkeel-apiserver/src/handler.rs",
    "crates/evenkeel-apiserver/src/pipeline",
    "crates/evenkeel-apiserver/src/storage",
    "crates/evenkeel-apiserver/src/verbs",
    "crates/evenkeel-apiserver/src/watch.rs",
];

/// The table of built-in resources: `row(("", "v1"), "pods", "Pod", …`.
const TABLE: &str = "crates/evenkeel-apiserver/src/registry/builtin.rs";

pub(super) fn check(tree: &Tree) -> Vec<String> {
    within(tree, GENERIC)
}

/// The comparisons within some folders.
pub(super) fn within(tree: &Tree, folders: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    let table = tree.sources.iter().find(|source| source.path == TABLE);
    let names = table.map(|table| names(&table.text)).unwrap_or_default();
    let generic = |path: &str| folders.iter().any(|folder| path.starts_with(folder));
    for source in &tree.sources {
        if !source.is_rust() || source.is_test() || !generic(&source.path) {
            continue;
        }
        for (number, line) in source.code().lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            // Literals are the odd parts; none of these lines contains an escaped quote and a kind.
            let mut literals = code.split('"').skip(1).step_by(2);
            if code.contains(".is(\"") || literals.any(|literal| names.contains(literal)) {
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

/// The plurals and kinds of the table.
fn names(table: &str) -> BTreeSet<&str> {
    let rows = table.lines().filter(|line| line.trim_start().starts_with("row(("));
    rows.flat_map(|row| row.split('"').skip(1).step_by(2).skip(2).take(2)).collect()
}
