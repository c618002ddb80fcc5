//! Every published crate has what its page on a registry shows, and the text of its licence.

use std::fs;

use super::Tree;

/// The keys of a manifest.
const KEYS: &[&str] = &["description", "readme", "keywords", "categories", "license"];

/// The files beside a manifest. `LICENSE` is a link; a package contains the file it points to.
const FILES: &[&str] = &["LICENSE", "README.md"];

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    let crates = tree.root.join("crates");
    let mut names: Vec<String> = fs::read_dir(&crates)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    for name in names {
        let folder = crates.join(&name);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        findings.extend(missing(&name, &manifest, |file| folder.join(file).is_file()));
    }
    findings
}

/// What a crate lacks, if it is published.
pub(super) fn missing(name: &str, manifest: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    if manifest.contains("publish = false") {
        return Vec::new();
    }
    let has = |key: &str| {
        let rest =
            |line: &str| line.strip_prefix(key).map(|rest| rest.starts_with([' ', '.', '=']));
        manifest.lines().any(|line| rest(line) == Some(true))
    };
    let keys = KEYS.iter().filter(|key| !has(key));
    let keys = keys.map(|key| format!("crates/{name}/Cargo.toml: no `{key}`"));
    let files = FILES.iter().filter(|file| !exists(file));
    keys.chain(files.map(|file| format!("crates/{name}: no {file}"))).collect()
}
