//! Where a new project finds the crates of Evenkeel, and whether a workspace contains it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Returns the checkout of Evenkeel: `given`, or the one around the current directory.
///
/// # Errors
/// If there is none: the crates are not published yet.
pub(crate) fn find(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        let path =
            path.canonicalize().with_context(|| format!("cannot open {}", path.display()))?;
        if !is_checkout(&path) {
            bail!("{} is not a checkout of Evenkeel: it has no crates/evenkeel", path.display());
        }
        return Ok(path);
    }
    let current = std::env::current_dir().context("cannot read the current directory")?;
    match current.ancestors().find(|directory| is_checkout(directory)) {
        Some(path) => Ok(path.to_owned()),
        None => bail!(
            "the crates of Evenkeel are not published yet, so the project needs a checkout\n\
             hint: pass it with --evenkeel-path DIR"
        ),
    }
}

fn is_checkout(directory: &Path) -> bool {
    directory.join("crates/evenkeel/Cargo.toml").is_file()
        && directory.join("crates/evenkeel-test/Cargo.toml").is_file()
}

/// Whether the workspace around `directory` has it as a member, or there is no workspace. Otherwise
/// Cargo rejects a package in it that is not a workspace of its own.
pub(crate) fn is_workspace_member(directory: &Path) -> bool {
    for root in directory.ancestors().skip(1) {
        let Ok(text) = std::fs::read_to_string(root.join("Cargo.toml")) else { continue };
        if !text.lines().any(|line| line.trim() == "[workspace]") {
            continue;
        }
        let Ok(relative) = directory.strip_prefix(root) else { return false };
        return members(&text).any(|pattern| matches(pattern, relative));
    }
    true
}

/// Returns the entries of `members` in the manifest of a workspace.
fn members(manifest: &str) -> impl Iterator<Item = &str> {
    let list = manifest.split_once("members").map_or("", |(_, rest)| rest);
    let list = list.split_once('[').map_or("", |(_, rest)| rest);
    let list = list.split_once(']').map_or("", |(list, _)| list);
    list.split(',').map(|entry| entry.trim().trim_matches(['"', '\''])).filter(|it| !it.is_empty())
}

/// Whether a path matches a pattern of workspace members, in which `*` stands for one component.
fn matches(pattern: &str, path: &Path) -> bool {
    let mut components = path.components();
    pattern.split('/').all(|expected| {
        components
            .next()
            .is_some_and(|it| expected == "*" || it.as_os_str().to_str() == Some(expected))
    }) && components.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_workspace_are_found_by_pattern() {
        let manifest = "[workspace]\nmembers = [\n  \"tools\", \"operators/*\",\n]\n";
        let member = |path: &str| members(manifest).any(|it| matches(it, Path::new(path)));
        assert!(member("tools") && member("operators/web"));
        assert!(!member("web") && !member("operators") && !member("operators/web/api"));
    }
}
