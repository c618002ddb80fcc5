//! The files that the operator is built from, and whether they have changed.
//!
//! Modification times are read a few times per second: projects have few files, and it needs no
//! other crate and works on every file system.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Directories below the project that have no sources.
const SKIPPED: &[&str] = &["target", "node_modules"];

/// The files and their modification times when they were last read.
pub(super) struct Sources {
    root: PathBuf,
    /// Files elsewhere, such as those of path dependencies.
    dependencies: BTreeSet<PathBuf>,
    times: BTreeMap<PathBuf, SystemTime>,
}

impl Sources {
    /// Reads the files below `root`.
    pub(super) fn new(root: &Path) -> Self {
        let mut sources =
            Self { root: root.to_owned(), dependencies: BTreeSet::new(), times: BTreeMap::new() };
        sources.times = sources.read();
        sources
    }

    /// Adds the files that Cargo lists as dependencies of an executable.
    pub(super) fn add_dependencies(&mut self, executable: &Path) {
        let Ok(text) = std::fs::read_to_string(executable.with_extension("d")) else { return };
        let listed = text.split_once(": ").map_or("", |(_, listed)| listed);
        // Spaces in paths are escaped.
        let listed = listed.trim().replace("\\ ", "\0");
        let paths = listed.split(' ').map(|path| PathBuf::from(path.replace('\0', " ")));
        for path in paths.filter(|path| !path.as_os_str().is_empty()) {
            if let Some(time) = modified(&path) {
                // A change during the build is found by the next check.
                self.times.entry(path.clone()).or_insert(time);
                self.dependencies.insert(path);
            }
        }
    }

    /// Returns whether a file was changed, added or removed since the last call.
    pub(super) fn changed(&mut self) -> bool {
        let times = self.read();
        let changed = times != self.times;
        self.times = times;
        changed
    }

    fn read(&self) -> BTreeMap<PathBuf, SystemTime> {
        let mut times = BTreeMap::new();
        walk(&self.root, &mut times);
        for path in &self.dependencies {
            if let Some(time) = modified(path) {
                times.insert(path.clone(), time);
            }
        }
        times
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

fn walk(directory: &Path, times: &mut BTreeMap<PathBuf, SystemTime>) {
    let Ok(entries) = directory.read_dir() else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || SKIPPED.contains(&&*name) {
            continue;
        }
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() {
            walk(&path, times);
        } else if path.extension().is_some_and(|it| it == "rs" || it == "toml")
            && let Some(time) = modified(&path)
        {
            times.insert(path, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_added_and_removed_sources_are_noticed() {
        let name = format!("evenkeel-sources-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::create_dir_all(root.join("target")).unwrap();
        let write = |path: &str, time: u64| {
            let file = std::fs::File::create(root.join(path)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(time))
                .unwrap();
        };
        write("src/main.rs", 1);
        let mut sources = Sources::new(&root);
        assert!(!sources.changed());
        write("target/other.rs", 1);
        write("notes.txt", 1);
        assert!(!sources.changed());
        write("src/main.rs", 2);
        assert!(sources.changed() && !sources.changed());
        write("src/lib.rs", 2);
        assert!(sources.changed());
        std::fs::remove_file(root.join("src/lib.rs")).unwrap();
        assert!(sources.changed());

        write("outside.txt", 1);
        std::fs::write(
            root.join("operator.d"),
            format!("operator: {}/outside.txt\n", { root.display() }),
        )
        .unwrap();
        sources.add_dependencies(&root.join("operator"));
        assert!(!sources.changed());
        write("outside.txt", 2);
        assert!(sources.changed());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
