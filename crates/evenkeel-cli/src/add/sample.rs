//! The sample objects that tests of added code use.

use std::path::Path;

use serde_json::Value;

use super::project::CustomKind;

/// A file in `samples/` with a single object.
pub(super) struct Sample {
    /// The name of the file.
    pub(super) file: String,
    pub(super) text: String,
}

impl Sample {
    /// Finds the sample of a kind, in the version of its type.
    pub(super) fn find(directory: &Path, kind: &CustomKind) -> Option<Self> {
        let version = format!("{}/{}", kind.group, kind.version);
        let entries = directory.join("samples").read_dir().ok()?;
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths.into_iter().find_map(|path| {
            let text = std::fs::read_to_string(&path).ok()?;
            // Fails if there are several objects.
            let object: Value = serde_saphyr::from_str(&text).ok()?;
            let found = object["apiVersion"] == *version && object["kind"] == *kind.kind;
            let file = path.file_name()?.to_str()?.to_owned();
            found.then_some(Self { file, text })
        })
    }

    /// Returns the text in another version, with a name of its own.
    pub(super) fn in_version(&self, kind: &CustomKind, version: &str) -> Option<String> {
        let object: Value = serde_saphyr::from_str(&self.text).ok()?;
        let name = object["metadata"]["name"].as_str()?;
        let (group, renamed) = (&kind.group, format!("{name}-{version}"));
        let mut expected = object.clone();
        expected["apiVersion"] = format!("{group}/{version}").into();
        expected["metadata"]["name"] = renamed.as_str().into();
        let text = self
            .text
            .replacen(&format!("{group}/{}", kind.version), &format!("{group}/{version}"), 1)
            .replacen(&format!("name: {name}"), &format!("name: {renamed}"), 1);
        // A text that is written differently is not edited.
        let changed: Value = serde_saphyr::from_str(&text).ok()?;
        (changed == expected).then_some(text)
    }
}
