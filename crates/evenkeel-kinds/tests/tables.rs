//! The tables of kinds name kinds that exist.
//!
//! A table is a `match` on group and kind: an arm with a misspelled name is dead code that nothing
//! reports. The names are read from the source, because an arm that never matches cannot be called.

use std::collections::BTreeSet;

use evenkeel_types::{Gvk, lookup};

/// The tables, and the smallest number of kinds that each must name: a scan that finds none proves
/// nothing.
const TABLES: &[(&str, &str, usize)] = &[
    ("columns", include_str!("../src/columns.rs"), 60),
    ("convert", include_str!("../src/convert.rs"), 15),
    ("defaults", include_str!("../src/defaults.rs"), 0),
    ("defaults/core", include_str!("../src/defaults/core.rs"), 10),
    ("defaults/groups", include_str!("../src/defaults/groups.rs"), 10),
    ("defaults/workloads", include_str!("../src/defaults/workloads.rs"), 5),
    ("empty", include_str!("../src/empty.rs"), 15),
    ("fields", include_str!("../src/fields.rs"), 5),
    ("names", include_str!("../src/names.rs"), 8),
    ("strategy", include_str!("../src/strategy/table.rs"), 35),
];

const VERSIONS: &[&str] =
    &["v1", "v2", "v1beta1", "v1beta2", "v1beta3", "v1alpha1", "v1alpha2", "v1alpha3"];

/// API groups of Kubernetes without a dot.
const SHORT_GROUPS: &[&str] = &["", "apps", "autoscaling", "batch", "policy"];

/// A kind that a table names, in one of these groups; in any if there are none.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    groups: Vec<String>,
    kind: String,
}

#[test]
fn every_row_of_a_table_names_a_kind_that_exists() {
    let groups = groups();
    let mut wrong = Vec::new();
    for (name, source, smallest) in TABLES {
        let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
        let rows = rows(code);
        assert!(rows.len() >= *smallest, "{name}: only {} kinds: {rows:?}", rows.len());
        for row in rows {
            let groups = if row.groups.is_empty() { &groups } else { &row.groups };
            // A pattern may name groups of which only some have the kind.
            if !groups.iter().any(|group| exists(group, &row.kind)) {
                wrong.push(format!("{name}: {row:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_are_found_in_tuples_matches_and_constructors() {
    let code = r#"
        match (gvk.group, gvk.kind) {
            ("", "Pod" | "Node") | ("apps", "Deployment") => 1,
            ("" | "events.k8s.io", "Event") if other => 2,
            ("metadata", "Name") | ("", "name") => 3,
        }
        match gvk.group {
            "batch" => match gvk.kind { "Job" => { inner("Other", "Text") } _ => 0 },
            "policy" if gvk.kind == "Budget" => 1,
        }
        match kind { "Service" => matches!(x, "Else"), _ => 0 }
        if matches!(kind, "Role" | "Binding") {}
        Gvk::new("storage.k8s.io", "v1", "Class");
    "#;
    let found: Vec<(String, String)> =
        rows(code).into_iter().map(|row| (row.groups.join("|"), row.kind)).collect();
    let found: Vec<(&str, &str)> =
        found.iter().map(|(groups, kind)| (groups.as_str(), kind.as_str())).collect();
    let expected = [
        ("", "Binding"),
        ("", "Role"),
        ("", "Service"),
        ("", "Node"),
        ("", "Pod"),
        ("|events.k8s.io", "Event"),
        ("apps", "Deployment"),
        ("batch", "Job"),
        ("policy", "Budget"),
        ("storage.k8s.io", "Class"),
    ];
    assert_eq!(found, expected);
}

fn exists(group: &str, kind: &str) -> bool {
    VERSIONS.iter().any(|version| lookup(Gvk::new(group, version, kind)).is_some())
}

/// The groups of all tables.
fn groups() -> Vec<String> {
    let all = TABLES.iter().flat_map(|(_, source, _)| literals(source));
    let groups: BTreeSet<String> = all.filter(|text| is_group(text)).map(str::to_owned).collect();
    groups.into_iter().collect()
}

fn is_group(text: &str) -> bool {
    SHORT_GROUPS.contains(&text) || text.ends_with(".k8s.io")
}

fn is_kind(text: &str) -> bool {
    text.starts_with(char::is_uppercase) && text.chars().all(char::is_alphanumeric)
}

fn literals(code: &str) -> impl Iterator<Item = &str> {
    code.split('"').skip(1).step_by(2)
}

/// The kinds that a table names.
fn rows(code: &str) -> BTreeSet<Row> {
    let code: String = code.lines().map(|line| line.split("//").next().unwrap_or(line)).collect();
    let mut rows = BTreeSet::new();
    let mut add = |groups: &[&str], kinds: &[&str]| {
        for kind in kinds.iter().filter(|kind| is_kind(kind)) {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            rows.insert(Row { groups, kind: (*kind).to_owned() });
        }
    };
    // `("group" | "other", "Kind" | "Other"`, and `Gvk::new("group", "version", "Kind"`.
    for (at, _) in code.match_indices('(') {
        let (groups, rest) = alternatives(&code[at + 1..]);
        if groups.is_empty() || !groups.iter().all(|group| is_group(group)) {
            continue;
        }
        let (mut kinds, rest) = alternatives(rest.strip_prefix(',').unwrap_or_default());
        if kinds.iter().all(|text| VERSIONS.contains(text)) {
            kinds = alternatives(rest.strip_prefix(',').unwrap_or_default()).0;
        }
        add(&groups, &kinds);
    }
    // `"group" if gvk.kind == "Kind"`.
    for (at, start) in code.match_indices("gvk.kind == ") {
        let group = literals_before(&code[..at]).filter(|text| is_group(text));
        add(group.as_slice(), &alternatives(&code[at + start.len()..]).0);
    }
    // `"group" => match gvk.kind { "Kind" =>`, `match kind { "Kind" =>`, `matches!(kind, "Kind")`.
    for start in ["match gvk.kind {", "match kind {"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].trim_end();
            let group = before.strip_suffix("=>").and_then(|arm| literals_before(arm.trim_end()));
            let group = group.filter(|text| is_group(text) && before.trim_end().ends_with("=>"));
            for pattern in patterns(&code[at + start.len()..]) {
                add(group.as_slice(), &alternatives(pattern).0);
            }
        }
    }
    for (at, start) in code.match_indices("matches!(kind,") {
        add(&[], &alternatives(&code[at + start.len()..]).0);
    }
    rows
}

/// The literals of `"a" | "b"` at the start of a text, and what follows them.
fn alternatives(text: &str) -> (Vec<&str>, &str) {
    let (mut found, mut rest) = (Vec::new(), text.trim_start());
    while let Some((literal, after)) =
        rest.strip_prefix('"').and_then(|inside| inside.split_once('"'))
    {
        found.push(literal);
        rest = after.trim_start();
        match rest.strip_prefix('|') {
            Some(next) => rest = next.trim_start(),
            None => break,
        }
    }
    (found, rest)
}

/// The last literal of a text.
fn literals_before(text: &str) -> Option<&str> {
    let (before, _) = text.rsplit_once('"')?;
    before.rsplit_once('"').map(|(_, literal)| literal)
}

/// The patterns of the arms of a `match`, whose text begins after its brace.
fn patterns(body: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start, mut in_text) = (Vec::new(), 0_usize, 0, false);
    let mut in_pattern = true;
    for (at, letter) in body.char_indices() {
        match letter {
            '"' => in_text = !in_text,
            _ if in_text => {}
            '}' | ')' | ']' if depth == 0 => break,
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth -= 1;
                if letter == '}' && depth == 0 && !in_pattern {
                    (start, in_pattern) = (at + 1, true);
                }
            }
            ',' if depth == 0 => (start, in_pattern) = (at + 1, true),
            '=' if depth == 0 && in_pattern && body[at..].starts_with("=>") => {
                found.push(body[start..at].trim());
                in_pattern = false;
            }
            _ => {}
        }
    }
    found
}
