//! The rules Kubernetes has for names, labels and path segments, in its words.
//!
//! Every function returns what is wrong with the value, one sentence each; an empty list means the
//! value is fine.

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// What keeps `value` from being an RFC 1123 label.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MAX {
        wrong.push(max_characters(LABEL_MAX));
    }
    if !is_dns1123_label(value) {
        wrong.push(if is_dns1123_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            pattern_mismatch(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                 '-', and must start and end with an alphanumeric character",
                DNS1123_LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// What keeps `value` from being an RFC 1123 subdomain.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain(value, max_characters)
}

// Upstream has this rule twice; label keys use the copy that counts "bytes".
fn subdomain(value: &str, too_long: fn(usize) -> String) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        wrong.push(too_long(SUBDOMAIN_MAX));
    }
    if !is_dns1123_subdomain(value) {
        wrong.push(pattern_mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character",
            DNS1123_SUBDOMAIN,
            &["example.com"],
        ));
    }
    wrong
}

/// What keeps `value` from being an RFC 1035 label.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MAX {
        wrong.push(max_characters(LABEL_MAX));
    }
    if !(value.starts_with(|c: char| c.is_ascii_lowercase()) && is_dns1123_label(value)) {
        wrong.push(pattern_mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character",
            DNS1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

/// What keeps `value` from being a label key (a "qualified name").
pub fn qualified_name(value: &str) -> Vec<String> {
    const SHAPE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
                         and end with an alphanumeric character";
    const EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
    let mut wrong = Vec::new();
    let name = match value.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let texts = subdomain(prefix, max_bytes);
                wrong.extend(texts.iter().map(|text| format!("prefix part {text}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')",
                pattern_mismatch(SHAPE, LABEL_KEY, EXAMPLES)
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        wrong.push(format!("name part {}", max_bytes(LABEL_MAX)));
    }
    if !is_label_text(name) {
        wrong.push(format!("name part {}", pattern_mismatch(SHAPE, LABEL_KEY, EXAMPLES)));
    }
    wrong
}

/// What keeps `value` from being a label value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MAX {
        wrong.push(max_bytes(LABEL_MAX));
    }
    if !(value.is_empty() || is_label_text(value)) {
        wrong.push(pattern_mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
             or '.', and must start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// What keeps `value` from standing in a URL path; a prefix may be `.` or `..`.
pub fn path_segment(value: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(value, "." | "..") {
        return vec![format!("may not be '{value}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|illegal| value.contains(**illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

pub(crate) fn is_dns1123_label(value: &str) -> bool {
    let bytes = value.as_bytes();
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.first().is_some_and(alnum)
        && bytes.last().is_some_and(alnum)
        && bytes.iter().all(|b| alnum(b) || *b == b'-')
}

pub(crate) fn is_dns1123_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns1123_label)
}

fn is_label_text(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn max_characters(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn max_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn pattern_mismatch(shape: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{shape} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subdomain_mismatch_names_example_and_pattern() {
        assert_eq!(
            dns1123_subdomain("Foo"),
            ["a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                 characters, '-' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]
        );
        assert!(dns1123_subdomain("a.b-c.d1").is_empty());
        assert!(!dns1123_subdomain("a..b").is_empty());
    }

    #[test]
    fn label_with_dots_is_told_so() {
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1035_label("1a").len(), 1);
        assert!(dns1035_label("a1").is_empty());
    }

    #[test]
    fn two_examples_are_joined_by_or() {
        assert!(dns1035_label("A")[0].contains("(e.g. 'my-name',  or 'abc-123', regex used"));
    }

    #[test]
    fn qualified_name_reports_prefix_and_name_apart() {
        assert!(qualified_name("example.com/Name").is_empty());
        let wrong = qualified_name("/");
        assert_eq!(wrong[0], "prefix part must be non-empty");
        assert_eq!(wrong[1], "name part must be non-empty");
        assert!(wrong[2].starts_with("name part must consist of"));
    }

    #[test]
    fn path_segments_allow_dots_only_in_prefixes() {
        assert_eq!(path_segment("..", false), ["may not be '..'"]);
        assert!(path_segment("..", true).is_empty());
        assert_eq!(path_segment("a/%", true), ["may not contain '/'", "may not contain '%'"]);
    }
}
