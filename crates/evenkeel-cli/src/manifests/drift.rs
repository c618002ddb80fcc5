//! The difference between the rendered manifests and the files in a directory.

use std::path::Path;

use super::File;
use crate::{diff, output};

/// Prints the difference and exits with code 1 if there is one.
pub(super) fn check(directory: &Path, files: &[File]) -> anyhow::Result<()> {
    let mut differences = String::new();
    for file in files {
        let path = directory.join(&file.path);
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path.display().to_string();
        let rendered = format!("{name} (rendered)");
        differences.push_str(&diff::unified(&name, &rendered, &found, &file.text));
    }
    if differences.is_empty() {
        output::progress(&format!("{} is up to date.", directory.display()));
        return Ok(());
    }
    output::print(&differences)?;
    output::progress(&format!(
        "{} differs from the operator\nhint: run `evenkeel manifests --output {}` with the same \
         --format",
        directory.display(),
        directory.display(),
    ));
    std::process::exit(1);
}
