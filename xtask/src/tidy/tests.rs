//! The rules on small examples.

use super::graph::Graph;
use super::source::{self, Source};
use super::{Tree, fuzz, headers, kinds, modules, packages, words};

fn tree(files: &[(&str, &str)]) -> Tree {
    let source =
        |(path, text): &(&str, &str)| Source { path: (*path).to_owned(), text: (*text).to_owned() };
    Tree { root: env!("CARGO_MANIFEST_DIR").into(), sources: files.iter().map(source).collect() }
}

#[test]
fn identifiers_are_split_into_words() {
    let found = words::split("fn listAll(HTTPServer: sent_once) // Client's");
    let words = ["fn", "list", "all", "httpserver", "sent", "once", "client", "s"];
    assert_eq!(found, words);
}

#[test]
fn a_module_without_a_header_is_found() {
    let findings = headers::check(&tree(&[("crates/a/src/b.rs", "use std::io;\n")]));
    assert_eq!(findings, ["crates/a/src/b.rs:1: the module has no `//!` header"]);
}

#[test]
fn a_stage_that_names_a_kind_is_found() {
    let code = "//! A stage.\nfn f() { r.is(\"\", \"services\") }\n";
    let by_plural = "//! A stage.\nmatch plural { \"pods\" => 1, \"other\" => 2 }\n";
    let by_kind = "//! A \"Pod\".\nlet kind = (\"\", \"Pod\");\n";
    let table = "    row((\"\", \"v1\"), \"pods\", \"Pod\", Namespaced, &[\"po\"]),\n";
    let tree = tree(&[
        ("crates/a/src/stages/persist.rs", code),
        ("crates/a/src/hooks.rs", code),
        ("crates/a/src/stages/plural.rs", by_plural),
        ("crates/a/src/stages/kind.rs", by_kind),
        ("crates/evenkeel-apiserver/src/registry/builtin.rs", table),
    ]);
    let found = ["persist", "plural", "kind"].map(|file| {
        format!("crates/a/src/stages/{file}.rs:2: compares with the name of a kind: make it a hook")
    });
    assert_eq!(kinds::within(&tree, &["crates/a/src/stages"]), found);
}

#[test]
fn a_fuzz_target_without_a_test_is_found() {
    let target = |name: &str| {
        format!("#[path = \"../../crates/a/tests/fuzz/entries.rs\"]\nentries::{name}(data)")
    };
    let files = [
        (
            "crates/a/tests/fuzz.rs",
            "fuzz(&seeds, 1, entries::parse);\nfuzz(&seeds, 2, entries::printed);",
        ),
        ("fuzz/fuzz_targets/parse.rs", &target("parse")),
        ("fuzz/fuzz_targets/print.rs", &target("print")),
        ("fuzz/fuzz_targets/other.rs", &target("parse")),
    ];
    let found = [
        "fuzz/fuzz_targets/print.rs:1: no test runs this target on stable Rust",
        "fuzz/fuzz_targets/other.rs:1: does not call entries::other",
        "fuzz/fuzz_targets/other.rs:1: no test runs this target on stable Rust",
    ];
    assert_eq!(fuzz::check(&tree(&files)), found);
}

#[test]
fn every_fuzz_target_has_a_test_on_stable_rust() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let tree = Tree { root: root.to_owned(), sources: source::read(root).unwrap() };
    let targets = tree.sources.iter().filter(|source| source.path.starts_with("fuzz/fuzz_targets"));
    assert!(targets.count() > 0);
    assert_eq!(fuzz::check(&tree), [""; 0]);
}

#[test]
fn a_published_crate_without_a_licence_or_a_description_is_found() {
    let manifest =
        "readme = \"README.md\"\nkeywords = []\ncategories = []\nlicense.workspace = true\n";
    let found = packages::missing("a", manifest, |file| file == "README.md");
    assert_eq!(found, ["crates/a/Cargo.toml: no `description`", "crates/a: no LICENSE"]);
    assert_eq!(packages::missing("a", "publish = false\n", |_| false), [""; 0]);
}

#[test]
fn paths_to_the_root_are_read() {
    let code = "use crate::{a::{X, Y}, b, c::Z};\nuse super::super::d::W; // crate::no\n\
                fn f() { crate::e::g(); supercrate::h(); super::i(); }\n";
    let found: Vec<String> = modules::paths(code, "crate::", 2).into_iter().collect();
    assert_eq!(found, ["a", "b", "c", "d", "e"]);
}

#[test]
fn a_cycle_of_modules_is_found_through_reexports_and_not_in_tests() {
    let files = [
        ("crates/evenkeel/src/lib.rs", "//! X.\nmod a;\nmod b;\npub use b::{Thing, Other};\n"),
        ("crates/evenkeel/src/a.rs", "//! A.\nuse crate::Thing;\n"),
        ("crates/evenkeel/src/b/c.rs", "//! C.\nuse super::super::a::Y;\n"),
        ("crates/evenkeel/src/d.rs", "//! D.\n\n#[cfg(test)]\nmod tests {\n use crate::d2;\n}\n"),
        ("crates/evenkeel/src/d2.rs", "//! D2.\nuse crate::d;\n"),
    ];
    let findings = modules::cycles(&tree(&files), "evenkeel");
    let expected = ["evenkeel: cycle of modules: a, b", "  a -> b (a.rs)", "  b -> a (b/c.rs)"];
    assert_eq!(findings, expected);
}

#[test]
fn a_cycle_inside_of_a_module_is_found() {
    let files = [
        ("crates/x/src/lib.rs", "//! X.\nmod outer;\n"),
        ("crates/x/src/outer.rs", "//! O.\nuse self::b::Thing;\nuse self::a::{Part, self};\n"),
        ("crates/x/src/outer/a.rs", "//! A.\nuse super::Thing;\n"),
        ("crates/x/src/outer/b/c.rs", "//! C.\nuse super::super::a::Y;\n"),
        ("crates/x/src/outer/d.rs", "//! D.\nuse crate::outer::Thing;\nuse crate::e::Thing;\n"),
        ("crates/x/src/outer/e.rs", "//! E.\nuse super::d::Z;\n"),
    ];
    let findings = modules::cycles(&tree(&files), "x::outer");
    let expected = ["x::outer: cycle of modules: a, b", "  a -> b (a.rs)", "  b -> a (b/c.rs)"];
    assert_eq!(findings, expected);
    assert_eq!(modules::cycles(&tree(&files), "x"), [""; 0]);
}

#[test]
fn the_picture_shows_layers_from_the_top() {
    let mut graph = Graph::default();
    graph.add_edge("top", "middle", "top.rs");
    graph.add_edge("middle", "bottom", "middle.rs");
    let lines: Vec<String> = graph.picture().lines().map(|line| line.trim().to_owned()).collect();
    assert_eq!(lines[0], "2  top              -> middle");
    assert!(lines[2].starts_with("0  bottom"));
}
