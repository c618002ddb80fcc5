//! Makes the responses of two servers comparable: uids, addresses and generated names become labels
//! in order of appearance; revisions and times keep their order but not their values.
//!
//! | what | becomes |
//! |---|---|
//! | a uid, an address or port that was allocated, a generated name | `<uid 1>`, `<ip 1>`, … |
//! | an object's resourceVersion | `<rv 1>`, …; `<rv 2 older>` if it is below one seen before |
//! | a list's or bookmark's resourceVersion | `<list rv>`, or `… older` if below one seen before |
//! | a recent time | `<time>`, with its precision; `… before creation` if it is |
//! | a page token, an ETag, the age in a table | `<continue>`, `<etag>`, `<age>` |
//! | managed fields | sorted without their times |
//! | causes for a custom resource | sorted |
//! | the description of a table column | `<description>` |
//! | which of several equally expensive rules are named | `<expensive rule>` |
//! | the name of a Go scheme | `<place>` |
//! | the type of `self` in an error of CEL | without its number |
//! | the kind of a list that cannot be converted | that of its objects |

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use crate::run::StepResponse;

/// Returns the responses of one sequence in comparable form.
pub fn canonical(responses: &[StepResponse]) -> Vec<StepResponse> {
    let mut canon = Canonicalizer::default();
    responses.iter().map(|response| canon.canonicalize(response)).collect()
}

#[derive(Default)]
struct Canonicalizer {
    uids: Labels,
    addresses: Labels,
    ports: Labels,
    versions: Labels,
    names: BTreeMap<String, String>,
    newest: u64,
}

#[derive(Default)]
struct Labels(BTreeMap<String, usize>);

impl Labels {
    fn number(&mut self, value: &str) -> usize {
        if let Some(number) = self.0.get(value) {
            return *number;
        }
        let number = self.0.len() + 1;
        self.0.insert(value.to_owned(), number);
        number
    }
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("the pattern is a valid constant"));
    };
}

pattern!(UID, r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
// Sequences set times before 2025, which are kept.
pattern!(TIME, r"20(2[5-9]|[3-9][0-9])-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?(Z|\+00:00)");
pattern!(ADDRESS, r"\b10\.0\.[0-9]{1,3}\.[0-9]{1,3}\b");
// A serialized object inside a text, as JSON (possibly quoted twice) or YAML; a failed
// precondition.
pattern!(
    QUOTED_VERSION,
    r#"(resourceVersion\\*"?: ?(?:\\*")?|ResourceVersion in (?:the precondition|record) \()[0-9]+"#
);
// The generated name of a rejected object appears only in the error. Sequences that generate names
// use prefixes such as `gen1-`.
pattern!(GENERATED, r"\b((?:[a-z0-9-]+-)?gen[0-9]*-)[bcdfghjklmnpqrstvwxz2456789]{5}\b");
pattern!(NODE_PORT, r":(3[0-2][0-9]{3})/");
pattern!(PORT_IN_TEXT, r"(nodePort:(?: \{[A-Z]+ )?)3[0-2][0-9]{3}\b");
pattern!(SELF_TYPE, r"\bselfType[0-9]+");
// A field inside of a map, or a whole map, whose keys upstream checks in random order.
pattern!(
    MAP_FIELD,
    r"\[[^\]]*[^0-9\]][^\]]*\]|\b(labels|annotations|matchLabels|nodeSelector|requests|limits)$"
);
// Upstream names the four most expensive rules of a schema; which of several with the same cost
// depends on the random order of Go's maps.
pattern!(EXPENSIVE, r"\S+(: Forbidden: contributed to estimated rule cost total)");
// The name of a scheme is the place of its variable, found by a path that is another one if
// kube-apiserver is built as a Go module.
pattern!(SCHEME, r#"in scheme \\*"[a-z/.:0-9]+\\*""#);
// Upstream converts either a list or, to fill its watch cache, single objects.
pattern!(CONVERTED_LIST, r"(conversion webhook for [^ ]+, Kind=[A-Za-z]+)List failed: ");
pattern!(AGE, r"^([0-9]+[smhdy]){1,2}$");
pattern!(
    VERSION_IN_TEXT,
    r"(?i)(resourceVersion in (?:precondition|object meta)|too large resource version|current|too old resource version): [0-9]+(?: \([0-9]+\))?"
);

impl Canonicalizer {
    fn canonicalize(&mut self, response: &StepResponse) -> StepResponse {
        let mut body = response.body.clone();
        remove_repeated_columns(&mut body);
        self.walk(&mut body, "");
        sort_causes(&mut body);
        let mut headers = response.headers.clone();
        for (name, value) in &mut headers {
            *value = if name == "etag" { "<etag>".to_owned() } else { self.text(value) };
        }
        StepResponse { status: response.status, headers, body, layout: response.layout.clone() }
    }

    fn walk(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::Object(fields) => self.object(fields),
            Value::Array(items) => {
                for item in items {
                    self.walk(item, if key == "cells" { "cell" } else { "" });
                }
            }
            Value::String(text) => {
                if key == "cell" {
                    *text = self.cell(text);
                } else if key == "continue" && !text.is_empty() {
                    *text = "<continue>".to_owned();
                } else {
                    *text = self.text(text);
                }
            }
            Value::Number(number)
                if (key == "nodePort" || key == "healthCheckNodePort")
                    && number.as_u64().is_some_and(|number| number >= 30_000) =>
            {
                *value = format!("<port {}>", self.ports.number(&number.to_string())).into();
            }
            _ => {}
        }
    }

    fn cell(&mut self, text: &str) -> String {
        if AGE.is_match(text) {
            return "<age>".to_owned();
        }
        let ports = &mut self.ports;
        let text = NODE_PORT.replace_all(text, |found: &Captures<'_>| {
            format!(":<port {}>/", ports.number(&found[1]))
        });
        self.text(&text)
    }

    fn object(&mut self, fields: &mut Map<String, Value>) {
        let is_list = fields.contains_key("items") || fields.contains_key("columnDefinitions");
        let is_bookmark = fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
        let replace_list_version = |metadata: &mut Map<String, Value>, canon: &mut Self| {
            if let Some(Value::String(version)) = metadata.get_mut("resourceVersion") {
                *version = canon.list_version(version);
            }
        };
        if is_list && let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            replace_list_version(metadata, self);
        }
        if is_bookmark
            && let Some(Value::Object(metadata)) =
                fields.get_mut("object").and_then(|object| object.get_mut("metadata"))
        {
            replace_list_version(metadata, self);
        }
        if let Some(Value::Array(columns)) = fields.get_mut("columnDefinitions") {
            for column in columns {
                // The wording of descriptions is not compared.
                column["description"] = "<description>".into();
            }
        }
        self.record_generated_name(fields);
        let created = fields.get("creationTimestamp").and_then(Value::as_str).map(str::to_owned);
        for (key, value) in fields.iter_mut() {
            match value {
                Value::String(text) if key == "resourceVersion" => {
                    *text = self.version(text);
                }
                Value::String(text) if key == "deletionTimestamp" => {
                    let early = created.as_ref().is_some_and(|created| *text < *created);
                    *text = self.text(text);
                    if early {
                        text.push_str(" before creation");
                    }
                }
                value => self.walk(value, key),
            }
        }
        if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
            // The server sorts by time in seconds, which differs between two runs.
            entries.sort_by_cached_key(|entry| {
                ["operation", "manager", "apiVersion", "subresource"]
                    .map(|key| entry[key].to_string())
            });
        }
        // Path elements in field sets may contain uids.
        if fields.keys().any(|key| key.len() >= 36 && UID.is_match(key)) {
            let old = std::mem::take(fields);
            fields.extend(old.into_iter().map(|(key, value)| (self.text(&key), value)));
        }
    }

    /// Records a generated name: `generateName` followed by five characters.
    fn record_generated_name(&mut self, fields: &Map<String, Value>) {
        let text = |key: &str| fields.get(key).and_then(Value::as_str);
        let (Some(prefix), Some(name)) = (text("generateName"), text("name")) else { return };
        let generated = name.strip_prefix(prefix).is_some_and(|suffix| suffix.len() == 5);
        if generated && !prefix.is_empty() && !self.names.contains_key(name) {
            let label = format!("{prefix}<generated>");
            self.names.insert(name.to_owned(), label);
        }
    }

    fn version(&mut self, text: &str) -> String {
        let Ok(version) = text.parse::<u64>() else { return self.text(text) };
        if version == 0 {
            return text.to_owned();
        }
        let seen = self.versions.0.contains_key(text);
        let number = self.versions.number(text);
        let older = !seen && version < self.newest;
        self.newest = self.newest.max(version);
        if older { format!("<rv {number} older>") } else { format!("<rv {number}>") }
    }

    /// Other writers advance the resourceVersion of a list. It must only not be older than what was
    /// seen.
    fn list_version(&self, text: &str) -> String {
        match text.parse::<u64>() {
            Ok(version) if version >= self.newest => "<list rv>".to_owned(),
            Ok(_) => "<list rv older>".to_owned(),
            Err(_) => text.to_owned(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        // Short strings contain none of the patterns.
        if text.len() < 5 {
            return text.to_owned();
        }
        let mut text = text.to_owned();
        for (name, label) in &self.names {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), label);
            }
        }
        if text.contains("gen") {
            text = GENERATED.replace_all(&text, "$1<generated>").into_owned();
        }
        if text.len() >= 36 && UID.is_match(&text) {
            let uids = &mut self.uids;
            let replaced = UID.replace_all(&text, |found: &Captures<'_>| {
                format!("<uid {}>", uids.number(&found[0]))
            });
            text = replaced.into_owned();
        }
        if text.contains("10.0.") {
            let addresses = &mut self.addresses;
            let replaced = ADDRESS.replace_all(&text, |found: &Captures<'_>| {
                format!("<ip {}>", addresses.number(&found[0]))
            });
            text = replaced.into_owned();
        }
        if text.contains("-") && TIME.is_match(&text) {
            let replaced = TIME.replace_all(&text, |found: &Captures<'_>| {
                let digits = found.get(2).map_or(0, |fraction| fraction.len() - 1);
                if digits == 0 { "<time>".to_owned() } else { format!("<time .{digits}>") }
            });
            text = replaced.into_owned();
        }
        if text.contains(": ") {
            let replaced = VERSION_IN_TEXT
                .replace_all(&text, |found: &Captures<'_>| format!("{}: <rv>", &found[1]));
            text = replaced.into_owned();
        }
        if text.contains("nodePort:") {
            text = PORT_IN_TEXT.replace_all(&text, "${1}<port>").into_owned();
        }
        if text.contains("in scheme") {
            text = SCHEME.replace_all(&text, "in scheme <place>").into_owned();
        }
        if text.starts_with("conversion webhook") {
            text = CONVERTED_LIST.replace(&text, "$1 failed: ").into_owned();
        }
        if text.contains("selfType") {
            text = SELF_TYPE.replace_all(&text, "selfType").into_owned();
        }
        if text.contains("esourceVersion") {
            text = QUOTED_VERSION.replace_all(&text, "$1<rv>").into_owned();
        }
        text
    }
}

/// Removes repeated column definitions: only the first table of a watch must have them, and
/// kube-apiserver repeats them if another watch encoded the event before.
fn remove_repeated_columns(body: &mut Value) {
    let Some(events) = body.get_mut("events").and_then(Value::as_array_mut) else { return };
    let mut defined = None;
    for event in events {
        let Some(columns) = event.pointer_mut("/object/columnDefinitions") else { continue };
        match &defined {
            None => defined = Some(columns.clone()),
            Some(first) if first == columns => *columns = Value::Null,
            Some(_) => {}
        }
    }
}

/// Parts of messages about the entries of a map, which kube-apiserver returns in the random order of
/// Go's maps.
const RANDOM: [&str; 5] = [
    "only deletion is allowed, but found new scheduling gate",
    "must be less than or equal to",
    "is greater than",
    " usage per ",
    "limit to request ratio per",
];

/// Sorts causes and conflicts that kube-apiserver returns in the random order of Go's maps: those
/// for custom resources and CRDs, conflicts of an apply, those about the entries of a map, and those in
/// [`RANDOM`]. The order of other causes is deterministic and compared.
fn sort_causes(status: &mut Value) {
    let group = status.pointer("/details/group").and_then(Value::as_str).unwrap_or_default();
    let message = status.get("message").and_then(Value::as_str).unwrap_or_default();
    let causes = status.pointer("/details/causes").and_then(Value::as_array);
    let is_conflict = |cause: &Value| cause["reason"] == "FieldManagerConflict";
    let is_of_map =
        |cause: &Value| cause["field"].as_str().is_some_and(|it| MAP_FIELD.is_match(it));
    let random = group.ends_with(".test")
        || group == "apiextensions.k8s.io"
        // The superfluous metric sources of a HorizontalPodAutoscaler are also read from a map.
        || group == "autoscaling"
        || causes.is_some_and(|causes| causes.iter().any(|it| is_conflict(it) || is_of_map(it)))
        || RANDOM.iter().any(|text| message.contains(text));
    if !random {
        return;
    }
    if let Some(Value::Array(causes)) = status.pointer_mut("/details/causes") {
        for cause in causes.iter_mut() {
            let message = cause["message"].as_str().unwrap_or_default();
            if message.contains("contributed to estimated rule cost total") {
                cause["field"] = "<expensive rule>".into();
            }
        }
        causes.sort_by_key(Value::to_string);
    }
    let Some(Value::String(message)) = status.get_mut("message") else { return };
    if message.contains("contributed to") {
        *message = EXPENSIVE.replace_all(message, "<expensive rule>$1").into_owned();
    }
    if let Some((start, list)) = message.split_once(": [")
        && let Some(list) = list.strip_suffix(']')
    {
        let mut parts: Vec<_> = list.split(", ").collect();
        parts.sort_unstable();
        *message = format!("{start}: [{}]", parts.join(", "));
    }
}

#[cfg(test)]
mod tests;
