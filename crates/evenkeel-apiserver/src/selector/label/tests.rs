//! Label selectors: syntax, matching and error texts.

use super::*;

#[track_caller]
fn check(selector: &str, pairs: &[(&str, &str)], expected: bool) {
    let selector = LabelSelector::parse(selector).unwrap();
    assert_eq!(
        selector.matches(&Labels::new(pairs.iter().copied())),
        expected,
        "{selector:?} on {pairs:?}"
    );
}

#[test]
fn every_operator_selects_as_upstream() {
    check("", &[], true);
    check("a=b", &[("a", "b")], true);
    check("a==b", &[("a", "c")], false);
    check("a!=b", &[], true);
    check("a!=b", &[("a", "b")], false);
    check("a", &[("a", "")], true);
    check("!a", &[("a", "")], false);
    check("a in (x, y)", &[("a", "y")], true);
    check("a notin (x,y)", &[("a", "z")], true);
    check("a notin (x,y)", &[], true);
    check("a in (,x)", &[("a", "")], true);
    check("a>3", &[("a", "4")], true);
    check("a<3", &[("a", "x")], false);
    check("a=", &[("a", "")], true);
    check("a=b, c in (d) ,!e", &[("a", "b"), ("c", "d")], true);
}

#[test]
fn keys_named_like_operators_are_keys() {
    check("in in (in)", &[("in", "in")], true);
    check("notin", &[("notin", "x")], true);
}

#[test]
fn parse_errors_match_upstream() {
    for (text, why) in [
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ] {
        let error = LabelSelector::parse(text).unwrap_err();
        assert_eq!(error, why, "{text}");
    }
}
