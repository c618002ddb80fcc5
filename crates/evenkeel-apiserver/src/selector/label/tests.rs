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

#[test]
fn a_set_of_any_size_is_looked_up_by_value() {
    let values: Vec<String> = (0..10_000).rev().map(|n| format!("v{n}")).collect();
    let values = values.join(",");
    for (value, listed) in [("v0", true), ("v4711", true), ("v9999", true), ("v10000", false)] {
        check(&format!("a in ({values})"), &[("a", value)], listed);
        check(&format!("a notin ({values})"), &[("a", value)], !listed);
    }
}

#[test]
fn a_value_may_have_63_bytes() {
    let (fits, longer) = ("v".repeat(63), "v".repeat(64));
    for selector in ["a=?", "a!=?", "a in (b,?)", "a notin (?)"] {
        LabelSelector::parse(&selector.replace('?', &fits)).unwrap();
        let error = LabelSelector::parse(&selector.replace('?', &longer)).unwrap_err();
        let rule = format!("[a]: Invalid value: {longer:?}: must be no more than 63 bytes");
        assert!(error.ends_with(&rule), "{error}");
    }
}

#[test]
fn every_invalid_value_is_reported_by_its_place_in_the_sorted_set() {
    const RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
                        characters, '-', '_' or '.', and must start and end with an alphanumeric \
                        character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
                        validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    for (text, why) in [
        ("a in (ok,x-)", format!("values[1][a]: Invalid value: \"x-\": {RULE}")),
        (
            "a in (z-,ok,x-)",
            format!(
                "[values[1][a]: Invalid value: \"x-\": {RULE}, values[2][a]: Invalid value: \
                 \"z-\": {RULE}]"
            ),
        ),
        (
            "a>x-",
            format!(
                "[values[0]: Invalid value: \"x-\": for 'Gt', 'Lt' operators, the value must be \
                 an integer, values[0][a]: Invalid value: \"x-\": {RULE}]"
            ),
        ),
        // Syntax errors come before invalid values.
        ("a in (x-", "found '', expected: ',' or ')'".to_owned()),
    ] {
        let error = LabelSelector::parse(text).unwrap_err();
        assert_eq!(error, format!("unable to parse requirement: {why}"), "{text}");
    }
}

#[test]
fn the_text_of_many_invalid_values_is_bounded() {
    let values: Vec<String> = (0..100_000).map(|n| format!("{n}-")).collect();
    let error = LabelSelector::parse(&format!("a in ({})", values.join(","))).unwrap_err();
    assert!((1 << 20..8 << 20).contains(&error.len()), "{}", error.len());
}
