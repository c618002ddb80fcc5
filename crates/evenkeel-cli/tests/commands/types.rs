//! `evenkeel types`.

use crate::support::{TempDir, run};

#[test]
fn types_are_printed_and_other_files_rejected() {
    let dir = TempDir::new("types");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/src/types/example.yaml");
    let output = run(&dir.0, &["types", example]).success();
    assert!(output.stdout.contains("pub struct GatewaySpec {"), "{output:?}");
    dir.write("other.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    for (file, error) in
        [("other.yaml", "not a CustomResourceDefinition"), ("none.yaml", "cannot read none.yaml")]
    {
        let output = run(&dir.0, &["types", file]);
        assert_eq!((output.code, &*output.stdout), (Some(2), ""), "{output:?}");
        assert!(output.stderr.contains(error), "{output:?}");
    }
}
