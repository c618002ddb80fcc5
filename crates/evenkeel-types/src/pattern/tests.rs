//! Regular expressions of schemas, translated from RE2.

use super::*;

fn matches(pattern: &str, text: &str) -> bool {
    Pattern::new(pattern).unwrap().is_match(text)
}

#[test]
fn perl_classes_are_ascii() {
    assert!(matches(r"^\d+$", "12"));
    assert!(!matches(r"^\d+$", "१२"));
    assert!(!matches(r"^[\w.]+$", "é"));
    assert!(matches(r"^[^\D]$", "7"));
    assert!(!matches(r"^\s$", "\u{a0}"));
    assert!(!matches(r"^\s$", "\x0b"));
    assert!(matches(r"\bé", "aé"));
}

#[test]
fn class_punctuation_is_literal() {
    assert!(matches(r"^[[a]+$", "[a"));
    assert!(matches(r"^[a&&b]+$", "a&b"));
    assert!(matches(r"^[]a]+$", "]a"));
    assert!(matches(r"^[[:alpha:]]+$", "ab"));
    assert!(matches(r"^[+--]+$", "+,-"));
    assert!(matches(r"^[\w-.]+$", "a-b.c"));
    assert!(matches(r"^[a-]+$", "a-"));
    assert!(matches(r"^[a-z-9]+$", "b-9"));
    assert!(matches(r"^[\x00-\x7f]+$", "a~"));
    assert!(!matches(r"^[\x00-\x7f]+$", "é"));
    assert!(matches(r"^[a\-z]+$", "-z"));
}

#[test]
fn lone_braces_and_octal_escapes_are_literal() {
    assert!(matches(r"^a{,3}$", "a{,3}"));
    assert!(matches(r"^{x}$", "{x}"));
    assert!(matches(r"^\101\Q.*\E$", "A.*"));
    assert!(matches(r"^\<\_\/$", "<_/"));
    assert!(matches(r"^(?P<1a>x)\p{^L}$", "x1"));
}

#[test]
fn errors_have_the_messages_of_go() {
    for (pattern, want) in [
        ("a(b", "missing closing ): `a(b`"),
        ("a)b", "unexpected ): `a)b`"),
        ("x[ab", "missing closing ]: `[ab`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("(?=x)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\pX", r"invalid character class range: `\pX`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ] {
        assert_eq!(Pattern::new(pattern).unwrap_err(), format!("error parsing regexp: {want}"));
    }
}
