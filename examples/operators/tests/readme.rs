//! Checks that the code in the README is the tested code.

const README: &str = include_str!("../../../README.md");
const WORKSPACE: &str = include_str!("../../../Cargo.toml");

#[test]
fn readme_contains_the_greeting_operator() {
    let source = include_str!("../src/bin/greeting.rs");
    let (program, test) = source.split_once("\n#[cfg(test)]").unwrap();
    let (_header, program) = program.split_once("\n\n").unwrap();
    assert!(README.contains(program.trim_end()), "the README should contain:\n{program}");
    // The statements of its first test, indented less: the README has a comment in it.
    let (first, second) = test.split_once("\n    #[test]\n").unwrap();
    for line in first.lines().filter(|line| line.trim().starts_with("cluster.")) {
        assert!(README.contains(line.trim()), "the README should contain:\n{}", line.trim());
    }
    let second = second.split_once("\n    }\n").unwrap().0.replace("\n    ", "\n");
    assert!(README.contains(second.trim_start()), "the README should contain:\n{second}");
}

#[test]
fn readme_contains_the_simulated_failures_test() {
    let source = include_str!("failures.rs");
    let at = source.find("#[tokio::test]").unwrap();
    let test = source[at..].split_once("\n}\n").unwrap().0;
    assert!(README.contains(test), "the README should contain:\n{test}");
}

#[test]
fn readme_contains_the_webhooks_of_the_example() {
    let source = include_str!("../../appservice/src/operator.rs");
    let at = source.find("/// Defaulting webhook").unwrap();
    let functions = source[at..].split_once("\n\nimpl Reconciler").unwrap().0;
    assert!(README.contains(functions), "the README should contain:\n{functions}");
}

/// Parses the version of a Cargo.toml dependency, and whether it disables default features.
fn requirement(line: &str) -> Option<(&str, bool)> {
    let value = line.split_once("version = ").map_or(line.split_once(" = ")?.1, |(_, rest)| rest);
    let version = value.strip_prefix('"')?.split('"').next()?;
    Some((version, line.contains("default-features = false")))
}

#[test]
fn readme_names_the_workspace_dependency_versions() {
    let block = README.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let mut compared = Vec::new();
    for line in block.lines().filter(|line| line.contains(" = ") && !line.contains("path = ")) {
        let (name, _) = line.split_once(" = ").unwrap();
        let ours = WORKSPACE.lines().find(|ours| ours.starts_with(&format!("{name} = "))).unwrap();
        let (shown, ours) = (requirement(line).unwrap(), requirement(ours).unwrap());
        let same = ours.0 == shown.0 || ours.0.starts_with(&format!("{}.", shown.0));
        assert!(same, "{name}: the README requires {shown:?}, the workspace {ours:?}");
        compared.push(name);
    }
    for name in ["k8s-openapi", "kube", "schemars", "serde", "serde_json", "tokio"] {
        assert!(compared.contains(&name), "the README does not name {name}");
    }
    for (_, path) in block.lines().filter_map(|line| line.split_once("path = \"../evenkeel/")) {
        let dir = path.split('"').next().unwrap();
        let manifest = format!("{}/../../{dir}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
        assert!(std::path::Path::new(&manifest).exists(), "{manifest}");
    }
}
