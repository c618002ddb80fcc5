//! YAML in and out, read the way kubectl's YAML reader does.

use serde_json::Value;

use crate::json;

/// Levels of nesting, as many as in JSON.
const MAX_DEPTH: usize = 128;

/// Decodes the first document.
pub(crate) fn decode(text: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let text = first_document(text);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
    };
    let mut value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| error.to_string().lines().next().unwrap_or("").to_owned())?;
    // Upstream reads YAML by way of JSON, and Go writes the float 1.0 as 1 there.
    json::settle_floats(&mut value);
    Ok(value)
}

/// What comes before the marker that begins a second document.
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
        let line_says_nothing = line.trim().is_empty() || line.starts_with(['#', '%']);
        begun |= !line_says_nothing && !is_marker(line, "---");
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
    fn only_the_first_document_counts() {
        let value = decode(b"# a comment\n---\na: 1\nb: |\n  ---x\n---\na: 2\n").unwrap();
        assert_eq!(value, json!({"a": 1, "b": "---x\n"}));
        assert_eq!(decode(b"a: 1\n...\nb: [\n").unwrap(), json!({"a": 1}));
        assert_eq!(decode(b"a: ---\n").unwrap(), json!({"a": "---"}));
    }

    #[test]
    fn what_is_written_reads_back() {
        let value = json!({"a": ["yes", "0644", "1", null, true, {"b": "x: y"}], "n": 3});
        assert_eq!(decode(encode(&value).unwrap().as_bytes()).unwrap(), value);
    }
}
