//! A sequence: named steps in a YAML file that can be written by hand and replayed.
//!
//! ```yaml
//! about: what the sequence covers
//! steps:
//! - do: POST /api/v1/namespaces/${ns}/configmaps
//!   body: {metadata: {name: a}, data: {k: v}}
//!   save: {made: ""}                   # the whole response, or a JSON pointer into it
//! - do: PUT /api/v1/namespaces/${ns}/configmaps/a
//!   from: made                         # the saved response, edited
//!   set: {/data/k: w}
//! - watch: w
//!   do: GET /api/v1/namespaces/${ns}/configmaps?watch=1
//! - read: w
//! - close: w
//! - do: GET /apis/${group}/v1/widgets
//!   until: {status: 200}               # repeated until the response matches
//! - do: GET /openapi/v2
//!   facts: own                         # compare the facts about ${group} in a document
//! - compact: true                      # compacts to the current revision; watches end
//! ```
//!
//! `${ns}` is a namespace and `${group}` an API group unique to the sequence; `${webhook}` is the URL
//! of a webhook server that both servers can call (`src/webhooks.rs`), `${ca}` its caBundle. A string that
//! consists only of `${name}` becomes the saved value with its type. Inside a longer text, a value
//! that was absent from the response is empty. An unknown name stays as written, on both servers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Named steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// The name for replay: the stem of the file, or `seed-S-N`.
    #[serde(default, skip)]
    pub name: String,
    /// What the sequence covers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Run only against kube-apiserver: the responses are too large for a transcript, or it
    /// configures webhooks, which a server in virtual time does not call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step. Its fields determine what it does: `do` sends a request, `watch` names the stream that
/// the request opens, `read` and `close` use a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The stream this request opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    /// Method and path, such as `GET /api/v1/namespaces/${ns}/pods`.
    #[serde(rename = "do", default, skip_serializing_if = "String::is_empty")]
    pub call: String,
    /// Headers other than the content type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The content type, if not JSON.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The body as JSON, which may be null.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "body")]
    pub body: Option<Value>,
    /// The body as raw text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The saved value to use as the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Values to set in the body, by JSON pointer. Missing parents are created.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Value>,
    /// Values to remove from the body, by JSON pointer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// Lengths in bytes of strings to set in the body, by JSON pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fill: BTreeMap<String, usize>,
    /// Depths of nested objects to set in the body, by JSON pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nest: BTreeMap<String, usize>,
    /// How many times to repeat the items of a body that is a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<usize>,
    /// Compare the facts in the returned document instead of its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Scope>,
    /// Values of the response to save, by JSON pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub save: BTreeMap<String, String>,
    /// Values to save only if the response contains them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub renew: BTreeMap<String, String>,
    /// Repeat the request until the response matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// The stream to read until it is idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// Read until the server ends the stream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
    /// Do not compare whether the stream has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_end: bool,
    /// The stream to close.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub close: Option<String>,
    /// Compact the server to the current revision. Open watches end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compact: bool,
}

/// Which facts of a document are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Those of the sequence's own group.
    Own,
    /// Those of all groups that no sequence created.
    BuiltIn,
}

/// Conditions on a response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The status code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Text that the body contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// Further texts that the body contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contains_all: Vec<String>,
    /// A saved value without which the response cannot match: if it is null, the request is sent
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless_null: Option<String>,
    /// The timeout is not an error. Some generated CRDs never work, or are never deleted since the
    /// conversion of their objects fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_time_out: bool,
}

/// Why a file is not a valid sequence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SequenceError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// Path of the file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The YAML is invalid.
    #[error("{name}: {message}")]
    Form {
        /// Name of the sequence.
        name: String,
        /// The error message.
        message: String,
    },
}

impl Sequence {
    /// Parses a sequence.
    ///
    /// # Errors
    ///
    /// If the text is not a valid sequence.
    pub fn parse(name: &str, text: &str) -> Result<Self, SequenceError> {
        let mut sequence: Self = serde_saphyr::from_str(text).map_err(|error| {
            SequenceError::Form { name: name.to_owned(), message: error.to_string() }
        })?;
        sequence.name = name.to_owned();
        Ok(sequence)
    }

    /// Reads a file. Its stem becomes the name.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is invalid.
    pub fn load(path: &Path) -> Result<Self, SequenceError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SequenceError::File { path: path.display().to_string(), source })?;
        let name = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        Self::parse(&name, &text)
    }

    /// Reads all sequences of a directory, sorted by name.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read or is invalid.
    pub fn load_folder(folder: &Path) -> Result<Vec<Self>, SequenceError> {
        let failed = |source| SequenceError::File { path: folder.display().to_string(), source };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| Self::load(path)).collect()
    }

    /// Returns whether the sequence compacts the servers, which affects all their clients.
    pub fn compacts(&self) -> bool {
        self.steps.iter().any(|step| step.compact)
    }

    /// Renders the sequence as YAML, one step per line.
    pub fn render(&self) -> String {
        let live = if self.live { "live: true\n" } else { "" };
        let about = Value::from(self.about.as_str());
        let mut text = format!("about: {about}\n{live}steps:\n");
        for step in &self.steps {
            let line = serde_json::to_string(step).unwrap_or_default();
            text.push_str("- ");
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

impl Step {
    /// Creates a request without a body.
    pub fn call(method: &str, path: impl AsRef<str>) -> Self {
        Self { call: format!("{method} {}", path.as_ref()), ..Self::default() }
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Sets the content type.
    #[must_use]
    pub fn with_type(mut self, content_type: &str) -> Self {
        self.content_type = Some(content_type.to_owned());
        self
    }

    /// Saves the whole response under a name.
    #[must_use]
    pub fn saving(mut self, name: impl Into<String>) -> Self {
        self.save.insert(name.into(), String::new());
        self
    }

    /// Returns the request, or `read` and the name of a watch.
    pub fn request(&self) -> Cow<'_, str> {
        match &self.read {
            Some(name) => format!("read {name}").into(),
            None => self.call.as_str().into(),
        }
    }

    /// Returns the method and the path with its query.
    pub fn method_and_path(&self) -> (&str, &str) {
        self.call.split_once(' ').unwrap_or(("GET", &self.call))
    }
}

/// Saved values by name.
pub type Variables = BTreeMap<String, Value>;

/// Expands saved values in a text.
pub fn expand_text(text: &str, variables: &Variables) -> String {
    if !text.contains("${") {
        return text.to_owned();
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        expanded.push_str(&rest[..start]);
        let name = &rest[start + 2..start + length];
        match variables.get(name) {
            Some(Value::String(value)) => expanded.push_str(value),
            Some(Value::Null) => {}
            Some(value) => expanded.push_str(&value.to_string()),
            None => expanded.push_str(&rest[start..=start + length]),
        }
        rest = &rest[start + length + 1..];
    }
    expanded.push_str(rest);
    expanded
}

/// Expands saved values in a body.
pub fn expand(value: &Value, variables: &Variables) -> Value {
    match value {
        Value::String(text) => {
            let name = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
            match name.and_then(|name| variables.get(name)) {
                Some(value) => value.clone(),
                None => Value::String(expand_text(text, variables)),
            }
        }
        Value::Array(items) => items.iter().map(|item| expand(item, variables)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (expand_text(name, variables), expand(value, variables)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// Sets the value at a JSON pointer. Missing parents are created as objects.
pub fn set_at(target: &mut Value, pointer: &str, value: Value) {
    let Some((parent, last)) = pointer.rsplit_once('/') else {
        *target = value;
        return;
    };
    if target.pointer(parent).is_none() {
        set_at(target, parent, Value::Object(serde_json::Map::new()));
    }
    let key = last.replace("~1", "/").replace("~0", "~");
    match target.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.insert(key, value);
        }
        Some(Value::Array(items)) => match key.parse::<usize>() {
            Ok(at) if at < items.len() => items[at] = value,
            _ => items.push(value),
        },
        _ => {}
    }
}

/// Removes the value at a JSON pointer, if present.
pub fn unset_at(target: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    let key = last.replace("~1", "/").replace("~0", "~");
    match target.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(&key);
        }
        Some(Value::Array(items)) => {
            if let Ok(at) = key.parse::<usize>()
                && at < items.len()
            {
                items.remove(at);
            }
        }
        _ => {}
    }
}

/// Reads a body. Without this function a null would be no body.
fn body<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests;
