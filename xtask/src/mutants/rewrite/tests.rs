//! The mutants of small functions.

use super::*;

fn source(text: &str) -> Source {
    Source::new(text, &["excluded"], 1).unwrap()
}

/// Returns the descriptions of the mutants of a function body.
fn mutants(body: &str) -> Vec<String> {
    let text = format!("const PORT: i32 = 80;\nfn operator() {{\n    {body}\n}}\n");
    let source = source(&text);
    let (rewritten, _) = source.render();
    syn::parse_file(&rewritten).unwrap();
    assert_eq!(rewritten.lines().count(), text.lines().count());
    source.mutants.into_iter().map(|it| it.description).collect()
}

#[test]
fn mutants_of_statements_and_expressions() {
    let table: &[(&str, &[&str])] = &[
        (
            "client.delete(&a).await?;",
            &["delete `client.delete(&a).await?`", "ignore the error of `client.delete(&a).await`"],
        ),
        ("let a = b < c;", &["replace `b < c` by `b <= c`"]),
        ("let a = !b || c;", &["replace `!b || c` by `!b && c`", "replace `!b` by `b`"]),
        ("let a = b * PORT;", &["replace `b * PORT` by `b / PORT`", "replace `PORT` by `81`"]),
        ("if a {}", &["replace `a` by `true`", "replace `a` by `false`"]),
        (
            "if let Some(a) = b && a {}",
            &["replace condition `let Some(a) = b && a` by `false`", "replace `a` by `true`"],
        ),
        (
            "match a { b if c => d = e, _ => {} }",
            &["replace `c` by `true`", "replace `c` by `false`", "delete `d = e`"],
        ),
        ("let a = apply(b).force();", &["delete `.force()`"]),
        ("let a = [1, 1];", &["replace `1` by `2`", "replace `1` by `2` #2"]),
        (
            "let a = Action::requeue_after(b);",
            &["replace `Action::requeue_after(b)` by `Action::done()`"],
        ),
        ("let a = A { b: c, ..d };", &["delete field `b` of A"]),
        ("let a = json!({\"b\": [\"c\"]});", &["replace `\"c\"` by `\"cx\"`"]),
        ("let a = format!(\"{b}\");", &["replace `format!(\"{b}\")` by `format!(\"x{b}\")`"]),
    ];
    for (body, expected) in table {
        assert_eq!(mutants(body), *expected, "{body}");
    }
}

#[test]
fn texts_for_people_have_no_mutants() {
    for body in [
        "cx.event(\"Created\", &format!(\"created {a}\"));",
        "tracing::info!(a, \"drift detected\");",
        "let message = format!(\"{a}\");",
        "let a = Err(format!(\"{b}\"));",
    ] {
        assert!(mutants(body).is_empty(), "{body}");
    }
    let condition = "let a = Condition::new(\"Ready\", b, \"Reason\", \"message\");";
    assert_eq!(mutants(condition), ["replace `\"Ready\"` by `\"Readyx\"`"]);
}

#[test]
fn tests_and_excluded_functions_have_no_mutants() {
    let none = "#[test]\nfn holds() { a()?; }\nfn excluded() { a()?; }\nfn main() { a()?; }\n";
    assert!(source(none).mutants.is_empty());
    let simulation = "#[test]\nfn it_survives_faults() { a()?; b().owns::<Pod>(); }\n";
    let mutants = source(simulation).mutants;
    let [mutant] = &*mutants else { unreachable!("{mutants:?}") };
    assert_eq!((mutant.line, &*mutant.description), (2, "delete `.owns::<Pod>()`"));
}

#[test]
fn statements_are_exchanged_and_functions_return_early() {
    let text =
        "async fn reconcile(&self) -> Result<Action> {\n    a().await?;\n    b()?;\n    c\n}\n";
    let text = format!("impl A {{ {text} }}");
    let source = source(&text);
    let descriptions: Vec<&str> = source.mutants.iter().map(|it| &*it.description).collect();
    assert!(descriptions.contains(&"exchange `a().await?;` and `b()?;`"), "{descriptions:?}");
    assert!(descriptions.contains(&"return `Ok(Action::done())` before `a().await?;`"));
    assert!(source.mutants.iter().all(|it| it.function == "reconcile"));
}

#[test]
fn mutant_is_a_branch_and_can_be_dropped() {
    let mut source = source("fn a(b: i32) -> i32 { b + c(1) }\n");
    let numbers: Vec<usize> = source.mutants.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    source.drop_mutant(1);
    source.drop_mutant(2);
    let (text, ranges) = source.render();
    assert_eq!(
        text,
        "fn a(b: i32) -> i32 { (if ::mutants::active(3) { b - c(1) } else { \
         b + c((if ::mutants::active(4) { 2 } else { 1 })) }) }\n"
    );
    let at = text.find("2 }").unwrap();
    let innermost = ranges.iter().filter(|(_, range)| range.contains(&at)).map(|it| it.0);
    assert_eq!(innermost.collect::<Vec<_>>(), [4, 3]);
}
