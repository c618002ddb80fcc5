//! Every module begins with `//!` and a sentence on what it is for.

use super::Tree;

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let modules = tree.sources.iter().filter(|source| source.is_rust());
    let bare = modules.filter(|source| !source.text.starts_with("//! "));
    bare.map(|source| format!("{}:1: the module has no `//!` header", source.path)).collect()
}
