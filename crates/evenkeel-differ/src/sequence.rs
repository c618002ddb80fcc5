//! A sequence: named steps in a file people can read, write and replay.
//!
//! ```yaml
//! about: what is to be seen
//! steps:
//! - do: POST /api/v1/namespaces/${ns}/configmaps
//!   body: {metadata: {name: a}, data: {k: v}}
//!   save: {made: ""}                   # the whole answer; else a JSON pointer into it
//! - do: PUT /api/v1/namespaces/${ns}/configmaps/a
//!   from: made                         # the saved answer, edited
//!   set: {/data/k: w}
//! - watch: w
//!   do: GET /api/v1/namespaces/${ns}/configmaps?watch=1
//! - read: w
//! - close: w
//! - do: GET /apis/${group}/v1/widgets
//!   until: {status: 200}               # asked again until it is so
//! - do: GET /openapi/v2
//!   facts: own                         # a document as what it says of ${group}
//! - compact: true                      # what was before now is forgotten; watches end
//! ```
//!
//! `${ns}` is a namespace and `${group}` an API group of the sequence's own. A string that is
//! nothing but `${name}` becomes the saved value whatever its type; inside a longer text, what was
//! not in the answer is empty. A name nobody saved stays as it is written, on both servers alike.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Steps with a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// By which it is replayed: the file's name, or `seed-S-N`.
    #[serde(default, skip)]
    pub name: String,
    /// What is to be seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Compared with a real server only: the answers are too large to keep.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// In order.
    pub steps: Vec<Step>,
}

/// One step. Which fields are set says what it does: `do` sends a request, `watch` names a stream
/// it opens, `read` and `close` use one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The stream this request opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    /// Method and path, such as `GET /api/v1/namespaces/${ns}/pods`.
    #[serde(rename = "do", default, skip_serializing_if = "String::is_empty")]
    pub call: String,
    /// Headers beside the content type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The content type, if it is not JSON.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The body, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The body, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The saved value the body starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Values to put into the body, by JSON pointer; missing objects on the way are made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Value>,
    /// What to take out of the body, by JSON pointer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// Strings of so many bytes to put into the body, by JSON pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fill: BTreeMap<String, usize>,
    /// Objects in objects, so many deep, to put into the body, by JSON pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nest: BTreeMap<String, usize>,
    /// How often to send what is in a body that is a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<usize>,
    /// Compare the document that is answered by what it says, not by how it says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Scope>,
    /// What to keep of the answer, by JSON pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub save: BTreeMap<String, String>,
    /// The same, but what the answer does not have leaves alone what was kept before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub renew: BTreeMap<String, String>,
    /// Ask again until the answer is like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// The stream to read from, until it is quiet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// Read until the server ends the stream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
    /// When the stream ends is left to the server, and not compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_end: bool,
    /// The stream to close.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub close: Option<String>,
    /// Make the server forget everything before now. Open watches do not survive it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compact: bool,
}

/// What of a document is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// What concerns the sequence's own group.
    Own,
    /// All but the groups of sequences.
    BuiltIn,
}

/// What an answer has to be like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// Its status code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// A text its body contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// Something saved without which it cannot be: then it is asked once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless_null: Option<String>,
}

/// Why a file is no sequence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SequenceError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not in our form.
    #[error("{name}: {message}")]
    Form {
        /// Which.
        name: String,
        /// What is wrong.
        message: String,
    },
}

impl Sequence {
    /// Reads the form above.
    ///
    /// # Errors
    ///
    /// If the text is something else.
    pub fn parse(name: &str, text: &str) -> Result<Self, SequenceError> {
        let mut sequence: Self = serde_saphyr::from_str(text).map_err(|error| {
            SequenceError::Form { name: name.to_owned(), message: error.to_string() }
        })?;
        sequence.name = name.to_owned();
        Ok(sequence)
    }

    /// Reads a file, whose stem becomes the name.
    ///
    /// # Errors
    ///
    /// If there is no such file or it has another form.
    pub fn load(path: &Path) -> Result<Self, SequenceError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SequenceError::File { path: path.display().to_string(), source })?;
        let name = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        Self::parse(&name, &text)
    }

    /// All sequences of a folder, by name.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read.
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

    /// Whether it makes servers forget, which nobody else who uses them would expect.
    pub fn compacts(&self) -> bool {
        self.steps.iter().any(|step| step.compact)
    }

    /// The text of a file: one step a line, which is YAML too.
    pub fn render(&self) -> String {
        let mut text = format!("about: {}\nsteps:\n", Value::from(self.about.as_str()));
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
    /// A request without a body.
    pub fn call(method: &str, path: impl AsRef<str>) -> Self {
        Self { call: format!("{method} {}", path.as_ref()), ..Self::default() }
    }

    /// With a body.
    #[must_use]
    pub fn with_body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// With a content type.
    #[must_use]
    pub fn with_type(mut self, content_type: &str) -> Self {
        self.content_type = Some(content_type.to_owned());
        self
    }

    /// Keeping the whole answer under a name.
    #[must_use]
    pub fn saving(mut self, name: impl Into<String>) -> Self {
        self.save.insert(name.into(), String::new());
        self
    }

    /// What it asks for, in one line: the request, or `read` and the name of a watch.
    pub fn request(&self) -> Cow<'_, str> {
        match &self.read {
            Some(name) => format!("read {name}").into(),
            None => self.call.as_str().into(),
        }
    }

    /// The method and the path with its query.
    pub fn method_and_path(&self) -> (&str, &str) {
        self.call.split_once(' ').unwrap_or(("GET", &self.call))
    }
}

/// What has been saved so far.
pub type Variables = BTreeMap<String, Value>;

/// Puts saved values into a text.
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

/// Puts saved values into a body.
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

/// Sets the value at a JSON pointer, making objects on the way.
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

/// Removes what a JSON pointer names, if it is there.
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

#[cfg(test)]
mod tests;
