//! `evenkeel new`. `cargo xtask templates` builds and tests what it creates.

use crate::support::{TempDir, run};

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn project_is_written_once() {
    let dir = TempDir::new("new");
    let arguments = ["new", "web-operator", "--evenkeel-path", CHECKOUT, "--kind", "Website"];
    let output = run(&dir.0, &arguments).success();
    assert!(output.stderr.contains("the kind Website in example.com/v1"), "{output:?}");
    let project = dir.0.join("web-operator");
    let manifest = std::fs::read_to_string(project.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"web-operator\""), "{manifest}");
    assert!(project.join("src/website.rs").is_file());

    let output = run(&dir.0, &arguments);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("web-operator is not empty"), "{output:?}");
    assert_eq!(std::fs::read_to_string(project.join("Cargo.toml")).unwrap(), manifest);
}

#[test]
fn dry_run_prints_the_files_and_writes_nothing() {
    let dir = TempDir::new("dry-run");
    let arguments = ["new", "web-operator", "--evenkeel-path", CHECKOUT, "--dry-run"];
    let output = run(&dir.0, &arguments).success();
    let paths = output.stdout.lines().filter(|line| line.starts_with("==> ")).count();
    assert!((10..=12).contains(&paths), "{output:?}");
    assert!(output.stdout.contains("==> src/main.rs <=="), "{output:?}");
    assert_eq!(dir.0.read_dir().unwrap().count(), 0);
}

#[test]
fn missing_checkout_and_invalid_names_are_explained() {
    let dir = TempDir::new("refused");
    for (arguments, error) in [
        (&["new", "web"][..], "pass it with --evenkeel-path DIR"),
        (&["new", "Web", "--evenkeel-path", CHECKOUT], "for example web-operator"),
        (&["new", "web", "--evenkeel-path", "."], "is not a checkout of Evenkeel"),
    ] {
        let output = run(&dir.0, arguments);
        assert_eq!(output.code, Some(2));
        assert!(output.stderr.contains(error), "{output:?}");
        assert_eq!(dir.0.read_dir().unwrap().count(), 0);
    }
}
