//! Encodes and decodes YAML like kubectl's YAML library.

use evenkeel_types::go::Quoted;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};

use crate::json;

/// Decodes the first document.
pub(crate) fn decode(text: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let text = first_document(text);
    let mut value = match read(text, DuplicateKeyPolicy::LastWins) {
        Ok(value) => value,
        // A flow mapping ends the document, and the rest is ignored.
        Err(error) => match json::decode_first(text.as_bytes()) {
            Some(value @ Value::Object(_)) => value,
            _ => return Err(go_message(&error)),
        },
    };
    if json::is_too_deep(&value) {
        return Err("exceeded max depth".into());
    }
    // Upstream converts YAML to JSON, in which Go encodes the float 1.0 as 1.
    json::normalize_floats(&mut value);
    Ok(value)
}

/// Returns the first duplicate key of a mapping, as a strict decoder reports it.
pub(crate) fn duplicate_key(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    match read(first_document(text), DuplicateKeyPolicy::Error).err()?.without_snippet() {
        Error::DuplicateMappingKey { key: Some(key), location } => {
            Some(already_set(location.line() as usize, key))
        }
        _ => None,
    }
}

/// Returns the message of a strict decoder for a duplicate key.
pub(crate) fn already_set(line: usize, key: &str) -> String {
    format!("line {line}: key {} already set in map", Quoted(key))
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Value, Error> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: duplicate_keys,
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// Returns the error with its line, which Go's library omits for the first line.
fn go_message(error: &Error) -> String {
    let text = error.to_string();
    // The library's limit is lower than ours, to protect its stack.
    if text.contains("budget breached: Depth") {
        return "exceeded max depth".to_owned();
    }
    let text = text.lines().next().unwrap_or("").trim_start_matches("error: ");
    let Some(location) = error.location() else { return text.to_owned() };
    let place = format!("line {} column {}: ", location.line(), location.column());
    match (text.strip_prefix(&place), location.line()) {
        (None, _) => text.to_owned(),
        (Some(what), 1) => what.to_owned(),
        (Some(what), line) => format!("line {line}: {what}"),
    }
}

/// Returns the text before the marker of a second document.
fn first_document(text: &str) -> &str {
    let is_marker = |line: &str, mark: &str| {
        line.strip_prefix(mark).is_some_and(|rest| rest.trim_start().len() < rest.len())
    };
    let mut begun = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if begun && (is_marker(line, "---") || is_marker(line, "...")) {
            return &text[..at];
        }
        let is_blank = line.trim().is_empty() || line.starts_with(['#', '%']);
        begun |= !is_blank && !is_marker(line, "---");
        at += line.len();
    }
    text
}

/// Encodes `value` as one document.
pub(crate) fn encode(value: &Value) -> Result<String, String> {
    serde_saphyr::to_string(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_read_as_kubectl_reads_them() {
        let value = decode(b"mode: 0644\non: yes\nname: \"yes\"\nf: 1.0\na: 1\na: 2\n").unwrap();
        assert_eq!(value["mode"], 420);
        assert_eq!(value["name"], "yes");
        assert_eq!(value["f"], 1);
        assert_eq!(value["a"], 2);
    }

    #[test]
    fn errors_and_duplicate_keys_carry_a_line() {
        let why = |text: &[u8]| decode(text).unwrap_err();
        assert_eq!(why(b"a: b: c"), "mapping values are not allowed in this context");
        assert_eq!(why(b"x: y\na: b: c"), "line 2: mapping values are not allowed in this context");
        let duplicate = |text: &[u8]| duplicate_key(text);
        assert_eq!(
            duplicate(b"a: 1\nb: {c: 1,\n c: 2}").unwrap(),
            "line 3: key \"c\" already set in map"
        );
        assert_eq!(duplicate(b"a: 1\nb: {a: 1}"), None);
    }

    #[test]
    fn nesting_beyond_the_limit_is_an_error() {
        for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("{\"a\":", "}")] {
            for depth in [130, 2_000, 100_000] {
                let text = open.repeat(depth) + "x" + &close.repeat(depth);
                assert!(decode(text.as_bytes()).is_err(), "{open} {depth}");
            }
        }
    }

    #[test]
    fn only_the_first_document_is_read() {
        let value = decode(b"# a comment\n---\na: 1\nb: |\n  ---x\n---\na: 2\n").unwrap();
        assert_eq!(value, json!({"a": 1, "b": "---x\n"}));
        assert_eq!(decode(b"a: 1\n...\nb: [\n").unwrap(), json!({"a": 1}));
        assert_eq!(decode(b"a: ---\n").unwrap(), json!({"a": "---"}));
    }

    #[test]
    fn text_after_a_flow_mapping_is_ignored() {
        assert_eq!(decode(b"{\"a\": 1} trailing").unwrap(), json!({"a": 1}));
        assert!(decode(b"a: 1 b: 2").is_err());
    }

    #[test]
    fn encoded_values_decode_to_themselves() {
        let value = json!({"a": ["yes", "0644", "1", null, true, {"b": "x: y"}], "n": 3});
        assert_eq!(decode(encode(&value).unwrap().as_bytes()).unwrap(), value);
    }
}
