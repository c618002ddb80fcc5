//! Checks that the tests named in ACCEPTANCE.md exist.

use std::fs;
use std::path::Path;

#[test]
fn every_acceptance_row_names_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    for folder in ["src", "tests"] {
        read(&root.join(folder), &mut code);
    }
    let list = fs::read_to_string(root.join("tests/ACCEPTANCE.md")).unwrap();
    let rows = list.lines().filter(|line| line.starts_with("| "));
    let names = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let (missing, named): (Vec<_>, Vec<_>) =
        names.partition(|name| !code.contains(&format!("fn {name}(")));
    assert!(missing.is_empty(), "{missing:?}");
    assert!(named.len() > 60, "{named:?}");
}

fn read(folder: &Path, code: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, code);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            code.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}
