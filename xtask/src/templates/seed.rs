//! A target directory that starts with the artifacts of this repository's.
//!
//! The workspace of the templates has the manifest, the features and, through links, the packages of
//! this repository at the same relative paths, so the units of both have the same names and
//! fingerprints, and Cargo compiles only the projects.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;

/// The directories of a profile that Cargo finds artifacts by.
const DIRECTORIES: &[&str] = &[".fingerprint", "build", "deps"];

/// The artifacts of libraries. The rest of `deps` is small, or executables that are not needed.
const LINKED: &[&str] = &["rlib", "rmeta", "so", "dylib"];

/// Copies what is newer in `profile`, a directory such as `target/debug`, to the same directory below
/// `target`.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn seed(profile: &Path, target: &Path) -> Result<(), Box<dyn Error>> {
    let to = target.join(profile.file_name().ok_or("the profile has no name")?);
    for directory in DIRECTORIES {
        let from = profile.join(directory);
        if from.is_dir() {
            copy(&from, &to.join(directory), *directory == "deps")?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, libraries: bool) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        if entry.file_type()?.is_dir() {
            copy(&path, &copied, libraries)?;
        } else if !libraries || extension == "d" {
            if let Some(time) = newer(&path, &copied) {
                remove(&copied)?;
                fs::copy(&path, &copied)?;
                // Cargo compares the times of fingerprints with those of sources.
                File::options().append(true).open(&copied)?.set_modified(time)?;
            }
        } else if LINKED.contains(&&*extension) && newer(&path, &copied).is_some() {
            remove(&copied)?;
            // The compiler replaces such a file instead of writing to it.
            fs::hard_link(&path, &copied)?;
        }
    }
    Ok(())
}

/// Returns the time of a file if the other one is older or missing.
fn newer(path: &Path, other: &Path) -> Option<SystemTime> {
    let time = |path: &Path| path.metadata().ok()?.modified().ok();
    let own = time(path)?;
    time(other).is_none_or(|other| other < own).then_some(own)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
