//! Known differences and what they match.

use super::*;

const TABLE: &str = "
# Title

| request | at | upstream | ours | why |
|---|---|---|---|---|
| `GET *` | `header/etag` | `<etag>` | `nothing` | no reason to have one |
| `POST */pods` | `body/*` | `*` | `*` | pods |
";

fn difference(at: &str, upstream: Option<Value>, ours: Option<Value>) -> Difference {
    Difference { step: 0, at: at.to_owned(), upstream, ours }
}

#[test]
fn row_explains_only_matching_differences() {
    let known = KnownDifferences::parse(TABLE).unwrap();
    let etag = difference("header/etag", Some("<etag>".into()), None);
    assert!(known.explains("GET /apis", &etag));
    assert!(!known.explains("POST /apis", &etag));
    let other = difference("header/etag", None, Some("<etag>".into()));
    assert!(!known.explains("GET /apis", &other));
}

#[test]
fn rows_that_never_matched_are_reported() {
    let known = KnownDifferences::parse(TABLE).unwrap();
    known.explains("GET /", &difference("header/etag", Some("<etag>".into()), None));
    let unused = known.unused();
    assert_eq!(unused.len(), 1);
    assert!(unused[0].starts_with("POST */pods"), "{unused:?}");
}

#[test]
fn row_without_reason_is_rejected() {
    assert!(KnownDifferences::parse("|a|b|c|d|e|\n|-|-|-|-|-|\n| a | b | c | d | |\n").is_err());
}

#[test]
fn star_matches_any_text() {
    assert!(matches("a*c", "abc") && matches("*", "") && matches("a*b*c", "a-b-b-c"));
    assert!(!matches("a*c", "abd") && !matches("a", "ab") && !matches("ab*b", "ab"));
}

#[test]
fn differences_md_is_well_formed() {
    KnownDifferences::built_in().unwrap();
}
