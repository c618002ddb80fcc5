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
fn a_row_explains_what_it_describes_and_nothing_else() {
    let known = Known::parse(TABLE).unwrap();
    let etag = difference("header/etag", Some("<etag>".into()), None);
    assert!(known.explains("GET /apis", &etag));
    assert!(!known.explains("POST /apis", &etag));
    let other = difference("header/etag", None, Some("<etag>".into()));
    assert!(!known.explains("GET /apis", &other));
}

#[test]
fn rows_that_never_matched_are_named() {
    let known = Known::parse(TABLE).unwrap();
    known.explains("GET /", &difference("header/etag", Some("<etag>".into()), None));
    let unused = known.unused();
    assert_eq!(unused.len(), 1);
    assert!(unused[0].starts_with("POST */pods"), "{unused:?}");
}

#[test]
fn a_row_without_a_reason_is_refused() {
    assert!(Known::parse("|a|b|c|d|e|\n|-|-|-|-|-|\n| a | b | c | d | |\n").is_err());
}

#[test]
fn stars_stand_for_any_text() {
    assert!(matches("a*c", "abc") && matches("*", "") && matches("a*b*c", "a-b-b-c"));
    assert!(!matches("a*c", "abd") && !matches("a", "ab") && !matches("ab*b", "ab"));
}

#[test]
fn the_table_of_this_tree_is_well_formed() {
    Known::built_in().unwrap();
}
