//! The files that are checked.

use std::fs;
use std::io;
use std::path::Path;

/// The folders and documents of the workspace that hold text written by hand.
const ROOTS: &[&str] = &[
    ".ci/run",
    "bench",
    "crates",
    "examples",
    "fuzz",
    "xtask",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
];

/// The kinds of files that hold such text.
const EXTENSIONS: &[&str] = &["md", "rs", "tmpl", "yaml"];

/// Requests that are sent to both servers: input, of which not a byte may change.
const INPUT: &str = "crates/evenkeel-differ/sequences";

/// One file.
pub(super) struct Source {
    /// Its path from the root of the workspace, with `/` on every platform.
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    /// Whether it is Rust code.
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is test code.
    pub(super) fn is_test(&self) -> bool {
        let in_tests = |part| self.path.contains(part);
        in_tests("/tests/") || in_tests("/benches/") || self.path.ends_with("/tests.rs")
    }

    /// The code before the test module at the end of the file.
    pub(super) fn code(&self) -> &str {
        match self.text.find("\n#[cfg(test)]\nmod tests {") {
            Some(end) => &self.text[..end + 1],
            None => &self.text,
        }
    }
}

/// Reads all files, ordered by path.
pub(super) fn read(root: &Path) -> io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for part in ROOTS {
        let path = root.join(part);
        if path.is_dir() {
            walk(&path, root, &mut sources)?;
        } else if path.is_file() {
            add(&path, root, &mut sources)?;
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(sources)
}

fn walk(folder: &Path, root: &Path, sources: &mut Vec<Source>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            if name != "target" && !path.ends_with(INPUT) {
                walk(&path, root, sources)?;
            }
        } else if EXTENSIONS.iter().any(|it| path.extension().is_some_and(|kind| kind == *it)) {
            add(&path, root, sources)?;
        }
    }
    Ok(())
}

fn add(path: &Path, root: &Path, sources: &mut Vec<Source>) -> io::Result<()> {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let path_text = relative.to_string_lossy().replace('\\', "/");
    sources.push(Source { path: path_text, text: fs::read_to_string(path)? });
    Ok(())
}
