//! Validation rules: static checks of CRDs, creates and updates, compared with the answers of
//! Kubernetes, which `xtask/gofacts/rules` writes into `rules.txt`.

use evenkeel_schema::{Structural, default_crd, validate_crd};
use serde_json::{Deserializer, Value, json};

/// A line of the file with the answers that follow it.
struct Case<'t> {
    kind: &'t str,
    input: &'t str,
    answers: Vec<&'t str>,
}

#[test]
fn answers_are_those_of_kubernetes() {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for line in include_str!("rules.txt").lines() {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("#" | "", _) => {}
            ("!" | "w", _) => cases.last_mut().unwrap().answers.push(line),
            (kind, input) => cases.push(Case { kind, input, answers: Vec::new() }),
        }
    }
    assert!(cases.len() >= 80, "{} cases", cases.len());
    let mut schema = None;
    let mut differences = Vec::new();
    for case in &cases {
        let mut inputs = Deserializer::from_str(case.input).into_iter::<Value>();
        let mut next = || inputs.next().unwrap().unwrap();
        let mut answers = Vec::new();
        match case.kind {
            "schema" => {
                let crd = crd(&next());
                schema = Some(Structural::compile(&schema_of(&crd)).unwrap());
                answers = lines("!", validate_crd(&crd).iter().map(ToString::to_string));
            }
            "create" => {
                let errors = schema.as_ref().unwrap().validate(&object(&next()));
                answers = lines("!", errors.iter().map(ToString::to_string));
            }
            "update" => {
                let (old, new) = (object(&next()), object(&next()));
                let mut warnings = Vec::new();
                let errors = schema.as_ref().unwrap().validate_update(&old, &new, &mut warnings);
                answers.extend(lines("!", errors.iter().map(ToString::to_string)));
                answers.extend(lines("w", warnings.into_iter()));
            }
            other => panic!("{other}"),
        }
        answers.sort();
        if answers != case.answers {
            differences.push(format!(
                "{} {}\n  {}\nours:\n  {}",
                case.kind,
                case.input,
                case.answers.join("\n  "),
                answers.join("\n  ")
            ));
        }
    }
    let count = differences.len();
    assert!(count == 0, "{count} of {} differ\n{}", cases.len(), differences.join("\n"));
}

fn lines(start: &str, texts: impl Iterator<Item = String>) -> Vec<String> {
    texts.map(|text| format!("{start} {}", text.replace('\n', "\\n"))).collect()
}

fn crd(spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {
                "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList",
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
        "status": {"storedVersions": ["v1"]},
    });
    default_crd(&mut crd);
    crd
}

fn schema_of(crd: &Value) -> Value {
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec,
    })
}
