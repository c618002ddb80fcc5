//! Syntax checks for names: DNS names, labels, keys and ports.
//!
//! Every check returns the list of reasons why a string is *not* valid, with the messages of
//! kube-apiserver; an empty list means valid. The matchers are hand-written single passes: a check
//! allocates only if the string is invalid.

use std::borrow::Cow;

/// Why a string is invalid; empty if it is valid.
pub type Reasons = Vec<Cow<'static, str>>;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SUBDOMAIN_UNDERSCORE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const KEY_PARTS: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const KEY_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const KEY_PREFIX: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const C_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
const ENV_NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const HTTP_HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";

/// Checks a DNS label (RFC 1123).
pub fn dns1123_label(value: &str) -> Reasons {
    let mut reasons = Reasons::new();
    if value.len() > 63 {
        reasons.push("must be no more than 63 characters".into());
    }
    if !is_dns1123_label(value) {
        reasons
            .push(if is_dns1123_subdomain(value) { "must not contain dots" } else { LABEL }.into());
    }
    reasons
}

/// Checks a DNS subdomain (RFC 1123): dot-separated labels.
pub fn dns1123_subdomain(value: &str) -> Reasons {
    check_length_and_syntax(
        value,
        253,
        "must be no more than 253 characters",
        is_dns1123_subdomain(value),
        SUBDOMAIN,
    )
}

/// Like [`dns1123_subdomain`], with underscores.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Reasons {
    let valid = value.split('.').all(|label| {
        let label = label.strip_prefix('_').unwrap_or(label);
        matches_edge_and_inner(label, is_lower_alnum, |b| {
            is_lower_alnum(b) || b == b'-' || b == b'_'
        })
    });
    check_length_and_syntax(
        value,
        253,
        "must be no more than 253 characters",
        valid,
        SUBDOMAIN_UNDERSCORE,
    )
}

/// Checks a DNS label (RFC 1035), which starts with a letter.
pub fn dns1035_label(value: &str) -> Reasons {
    let valid =
        is_dns1123_label(value) && value.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    check_length_and_syntax(value, 63, "must be no more than 63 characters", valid, LABEL_1035)
}

/// Checks a wildcard name: `*.` and a subdomain.
pub fn wildcard_dns1123_subdomain(value: &str) -> Reasons {
    let valid = value.strip_prefix("*.").is_some_and(is_dns1123_subdomain);
    check_length_and_syntax(value, 253, "must be no more than 253 characters", valid, WILDCARD)
}

/// Checks a label key: a name with an optional DNS subdomain and slash before it.
pub fn qualified_name(value: &str) -> Reasons {
    let mut reasons = Reasons::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            reasons.push(KEY_PARTS.into());
            return reasons;
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                reasons.push("prefix part must be non-empty".into());
            } else {
                if prefix.len() > 253 {
                    reasons.push("prefix part must be no more than 253 bytes".into());
                }
                if !is_dns1123_subdomain(prefix) {
                    reasons.push(KEY_PREFIX.into());
                }
            }
            name
        }
    };
    if name.is_empty() {
        reasons.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        reasons.push("name part must be no more than 63 bytes".into());
    }
    if !is_qualified_name_part(name) {
        reasons.push(KEY_NAME.into());
    }
    reasons
}

/// Checks a label value.
pub fn label_value(value: &str) -> Reasons {
    let valid = value.is_empty() || is_qualified_name_part(value);
    check_length_and_syntax(value, 63, "must be no more than 63 bytes", valid, VALUE)
}

/// Checks a key of a ConfigMap or Secret.
pub fn config_key(value: &str) -> Reasons {
    let valid = !value.is_empty()
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    let mut reasons = check_length_and_syntax(
        value,
        253,
        "must be no more than 253 characters",
        valid,
        CONFIG_KEY,
    );
    match value {
        "." => reasons.push("must not be '.'".into()),
        ".." => reasons.push("must not be '..'".into()),
        _ if value.starts_with("..") => reasons.push("must not start with '..'".into()),
        _ => {}
    }
    reasons
}

/// Checks the name of an environment variable.
pub fn env_var_name(value: &str) -> Reasons {
    let mut reasons = Reasons::new();
    if value.is_empty() {
        reasons.push("environment variable name must be non-empty".into());
    }
    if !value.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        reasons.push(ENV_NAME.into());
    }
    reasons
}

/// Checks a C identifier.
pub fn c_identifier(value: &str) -> Reasons {
    let mut bytes = value.bytes();
    let valid = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    reason_unless(valid, C_IDENTIFIER)
}

/// Checks a port name (IANA service name).
pub fn port_name(value: &str) -> Reasons {
    let mut reasons = Reasons::new();
    if value.len() > 15 {
        reasons.push("must be no more than 15 characters".into());
    }
    if value.is_empty() || !value.bytes().all(|b| is_lower_alnum(b) || b == b'-') {
        reasons
            .push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        reasons.push("must contain at least one letter (a-z)".into());
    }
    if value.contains("--") {
        reasons.push("must not contain consecutive hyphens".into());
    }
    if value.starts_with('-') || value.ends_with('-') {
        reasons.push("must not begin or end with a hyphen".into());
    }
    reasons
}

/// Checks a port number.
pub fn port_number(value: i64) -> Reasons {
    reason_unless((1..=65535).contains(&value), "must be between 1 and 65535, inclusive")
}

/// Checks a percentage such as `50%`.
pub fn percent(value: &str) -> Reasons {
    let valid = value
        .strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    reason_unless(valid, PERCENT)
}

/// Checks the name of an HTTP header.
pub fn http_header_name(value: &str) -> Reasons {
    let valid = !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    reason_unless(valid, HTTP_HEADER)
}

/// Checks a name that is used as a URL path segment. A prefix may be `.` or `..`.
pub fn path_segment(value: &str, prefix: bool) -> Reasons {
    match value {
        "." if !prefix => return vec!["may not be '.'".into()],
        ".." if !prefix => return vec!["may not be '..'".into()],
        _ => {}
    }
    let mut reasons = Reasons::new();
    if value.contains('/') {
        reasons.push("may not contain '/'".into());
    }
    if value.contains('%') {
        reasons.push("may not contain '%'".into());
    }
    reasons
}

/// Checks an object name that must be a DNS subdomain, or with `prefix` a prefix of one.
pub fn subdomain_name(name: &str, prefix: bool) -> Reasons {
    dns1123_subdomain(&mask_trailing_dash(name, prefix))
}

/// Checks an object name that must be a DNS label, or with `prefix` a prefix of one.
pub fn label_name(name: &str, prefix: bool) -> Reasons {
    dns1123_label(&mask_trailing_dash(name, prefix))
}

/// Checks an object name that must be a DNS label (RFC 1035), or with `prefix` a prefix of one.
pub fn dns1035_label_name(name: &str, prefix: bool) -> Reasons {
    dns1035_label(&mask_trailing_dash(name, prefix))
}

/// Replaces a trailing dash, which is allowed in a prefix because random characters follow it. Like
/// upstream's `maskTrailingDash`, also replaces the character before the dash.
fn mask_trailing_dash(name: &str, prefix: bool) -> Cow<'_, str> {
    if prefix && name.len() > 1 && name.ends_with('-') {
        let mut kept: Vec<u8> = name.as_bytes()[..name.len() - 2].to_vec();
        kept.push(b'a');
        return Cow::Owned(String::from_utf8_lossy(&kept).into_owned());
    }
    Cow::Borrowed(name)
}

fn reason_unless(valid: bool, reason: &'static str) -> Reasons {
    if valid { Reasons::new() } else { vec![reason.into()] }
}

fn check_length_and_syntax(
    value: &str,
    max: usize,
    too_long: &'static str,
    valid: bool,
    malformed: &'static str,
) -> Reasons {
    let mut reasons = Reasons::new();
    if value.len() > max {
        reasons.push(too_long.into());
    }
    if !valid {
        reasons.push(malformed.into());
    }
    reasons
}

fn is_lower_alnum(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// Returns whether the first and last byte satisfy `edge` and all others `inner`.
fn matches_edge_and_inner(
    value: &str,
    edge: impl Fn(u8) -> bool,
    inner: impl Fn(u8) -> bool,
) -> bool {
    match value.as_bytes() {
        [] => false,
        [only] => edge(*only),
        [first, middle @ .., last] => {
            edge(*first) && edge(*last) && middle.iter().all(|&b| inner(b))
        }
    }
}

/// Whether a string is a DNS label (RFC 1123) of any length.
pub fn is_dns1123_label(value: &str) -> bool {
    matches_edge_and_inner(value, is_lower_alnum, |b| is_lower_alnum(b) || b == b'-')
}

/// Whether a string is a DNS subdomain (RFC 1123) of any length.
pub fn is_dns1123_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns1123_label)
}

/// Matches the syntax shared by label key names and label values.
fn is_qualified_name_part(value: &str) -> bool {
    matches_edge_and_inner(
        value,
        |b| b.is_ascii_alphanumeric(),
        |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'),
    )
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
    fn label_with_dots_has_its_own_message() {
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1035_label("1a").len(), 1);
        assert!(dns1035_label("a1").is_empty());
    }

    #[test]
    fn two_examples_are_joined_by_or() {
        assert!(dns1035_label("A")[0].contains("(e.g. 'my-name',  or 'abc-123', regex used"));
    }

    #[test]
    fn qualified_name_reports_prefix_and_name_separately() {
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

    #[test]
    fn name_prefixes_may_end_in_a_dash() {
        assert!(subdomain_name("web-", true).is_empty());
        assert_eq!(subdomain_name("web-", false).len(), 1);
        // The mask removes one byte of the last letter.
        assert_eq!(label_name("é-", true).len(), 1);
    }
}
