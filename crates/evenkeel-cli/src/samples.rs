//! The sample objects of a project.

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::Value;

/// Returns the objects in `samples/` of the project or of its operator package, with their files.
///
/// # Errors
/// If a file is not YAML.
pub(crate) fn read() -> anyhow::Result<Vec<(String, Value)>> {
    let mut files: Vec<PathBuf> = ["samples", "operator/samples"]
        .iter()
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|it| it == "yaml" || it == "yml"))
        .collect();
    files.sort();
    let mut samples = Vec::new();
    for file in files {
        let place = file.display().to_string();
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {place}"))?;
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("cannot read {place}"))?;
        samples.extend(objects.into_iter().map(|object| (place.clone(), object)));
    }
    Ok(samples)
}
