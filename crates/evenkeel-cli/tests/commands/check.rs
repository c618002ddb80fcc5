//! `evenkeel check`, with the operator of the README.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use evenkeel::kube::Api;
use evenkeel::kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::install::{greeting, greetings};
use crate::support::{Background, Output, TempDir, block_on, client, operator, run};

fn check(dir: &TempDir, arguments: &[&str]) -> Output {
    let operator = operator().to_str().unwrap();
    run(&dir.0, &[&["check", "--binary", operator], arguments].concat())
}

#[test]
fn samples_are_validated_by_the_schema() {
    let dir = TempDir::new("samples");
    std::fs::create_dir_all(dir.0.join("samples")).unwrap();
    let sample = "apiVersion: example.com/v1\nkind: Greeting\nmetadata: {name: ada}\n";
    dir.write("samples/a.yaml", &format!("{sample}spec: {{name: Ada}}\n"));
    let output = check(&dir, &[]).success();
    assert!(output.stderr.contains("No breaking changes found"), "{output:?}");
    dir.write("samples/b.yaml", &format!("{sample}spec: {{}}\n"));
    let output = check(&dir, &["--json"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let lines = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let breaking: Vec<_> = lines.filter(|finding| finding["breaking"] == true).collect();
    let [finding] = &*breaking else { panic!("{output:?}") };
    assert_eq!(finding["place"], "samples/b.yaml");
    assert!(finding["problem"].as_str().unwrap().contains("spec.name"), "{finding}");
    let misspelled = sample.replace("Greeting", "Greetign");
    for (text, problem) in [
        (format!("{sample}spec: {{name: Ada, tilte: Countess}}\n"), "tilte"),
        (format!("{misspelled}spec: {{name: Ada}}\n"), "no kind \"Greetign\" in example.com/v1\n"),
        (sample.replace("/v1", "/v2"), "does not serve example.com/v2"),
        ("kind: [Greeting\n".to_owned(), "samples/b.yaml: line 1 column 7: unclosed"),
    ] {
        dir.write("samples/b.yaml", &text);
        let output = check(&dir, &[]);
        assert_ne!(output.code, Some(0), "{output:?}");
        assert!(format!("{}{}", output.stdout, output.stderr).contains(problem), "{output:?}");
    }
}

#[test]
fn crds_and_objects_of_a_cluster_are_compared_with_the_next_version() {
    let dir = TempDir::new("live");
    let _cluster = Background::start(&dir, &[]);
    run(&dir.0, &["install", "--binary", operator().to_str().unwrap()]).success();
    block_on(async {
        let client = client(&dir).await;
        // The CRD in use has another field, and does not require the name.
        let field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        let patch: Patch<Value> = Patch::Json(
            serde_json::from_value(json!([
                {"op": "add", "path": format!("{field}/properties/volume"),
                 "value": {"type": "integer"}},
                {"op": "remove", "path": format!("{field}/required")},
            ]))
            .unwrap(),
        );
        let crds = Api::<CustomResourceDefinition>::all(client.clone());
        let name = "greetings.example.com";
        crds.patch(name, &PatchParams::default(), &patch).await.unwrap();
        let mut nameless = greeting(&[]);
        nameless.data = json!({"spec": {"volume": 11}});
        greetings(client).create(&PostParams::default(), &nameless).await.unwrap();
    });
    let output = check(&dir, &["--against", "cluster"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    for line in [
        "error: greetings.example.com v1:.spec: name became required",
        "error: greetings.example.com v1:.spec.volume: the field was removed",
        "error: Greeting default/ada: ",
    ] {
        assert!(output.stdout.lines().any(|it| it.starts_with(line)), "{line}: {output:?}");
    }
}

#[test]
fn crds_of_a_commit_are_compared_with_the_next_version() {
    let dir = TempDir::new("commit");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=test", "-c", "user.email=test@example.com"]);
        assert!(git.args(arguments).current_dir(&dir.0).status().unwrap().success());
    };
    git(&["init", "--quiet"]);
    let operator = operator().to_str().unwrap();
    run(&dir.0, &["manifests", "--binary", operator, "--output", "deploy"]).success();
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "first"]);
    check(&dir, &["--against", "HEAD:deploy/02-crds.yaml"]).success();
    let path = dir.0.join("deploy/02-crds.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("greetings.example.com", "old.example.com")).unwrap();
    git(&["commit", "--quiet", "--all", "--message", "second"]);
    let output = check(&dir, &["--against", "HEAD:deploy/02-crds.yaml"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains("old.example.com: the CRD was removed"), "{output:?}");
    let output = check(&dir, &["--against", "HEAD"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("COMMIT:FILE"), "{output:?}");
}

#[test]
fn api_conventions_are_warnings() {
    let dir = TempDir::new("conventions");
    let output = check(&dir, &[]).success();
    let expected = "warning: greetings.example.com v1: there is no status";
    assert!(output.stdout.contains(expected), "{output:?}");
    let output = check(&dir, &["--deny-warnings"]);
    assert_eq!(output.code, Some(1), "{output:?}");
}

/// Returns an access report of a test, as evenkeel-test writes it.
pub(crate) fn access_report(user: &str, used: &[(&str, &str, &str)]) -> String {
    let used = used.iter().map(|(verb, group, resource)| {
        json!({
            "apiGroup": group, "resource": resource, "verb": verb, "namespace": "default",
            "allowed": true, "count": 1,
        })
    });
    let used: Vec<_> = used.collect();
    let user = format!("system:serviceaccount:default:{user}");
    json!({"user": user, "used": used, "denied": [], "unused": [], "minimal": []}).to_string()
}

/// Requests of the operator. What else its controller is allowed follows from its registration.
pub(crate) const REQUESTS: &[(&str, &str, &str)] = &[
    ("watch", "example.com", "greetings"),
    ("patch", "example.com", "greetings"),
    ("watch", "", "configmaps"),
    ("patch", "", "configmaps"),
    ("create", "", "configmaps"),
];

#[test]
fn permissions_are_compared_with_the_requests_of_tests() {
    let dir = TempDir::new("access");
    std::fs::create_dir_all(dir.0.join("access")).unwrap();
    let output = check(&dir, &["--access", "access"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("access has no requests of greeter"), "{output:?}");

    dir.write("access/a.json", &access_report("other", &[("delete", "", "pods")]));
    dir.write("access/b.json", &access_report("greeter", REQUESTS));
    let output = check(&dir, &["--access", "access"]).success();
    assert!(findings(&output.stdout).is_empty(), "{output:?}");
    let role = "minimal Role in namespace default:\n  create,get,list,patch,watch configmaps in API \
                group \"\"\n  get,list,patch,watch greetings in API group \"example.com\"\n";
    assert!(output.stdout.contains(role), "{output:?}");
    let output = check(&dir, &["--access", "access", "--json"]).success();
    let minimal = output.stdout.lines().find(|line| line.contains("minimal")).unwrap();
    let minimal: serde_json::Value = serde_json::from_str(minimal).unwrap();
    assert_eq!(minimal["minimal"][0]["rules"][0]["resources"], json!(["configmaps"]));

    // The same operator with a rule that its author added.
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]});
    let script = format!(
        "#!/bin/sh\n{} \"$@\" | sed 's/\"addedRules\":\\[/&{rule}/;s/\"rules\":\\[/&{rule},/'\n",
        operator().display()
    );
    let binary = dir.write("operator.sh", &script);
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let secrets = access_report("greeter", &[("get", "", "secrets")]);
    dir.write("access/c.json", &secrets);
    let output =
        run(&dir.0, &["check", "--binary", binary.to_str().unwrap(), "--access", "access"]);
    let output = output.success();
    let found = findings(&output.stdout);
    let unused = "warning: list secrets in API group \"\": added with ManagerBuilder::rule and used \
                  by no test";
    assert_eq!(found, [unused], "{output:?}");

    dir.write("access/c.json", &access_report("greeter", &[("delete", "", "configmaps")]));
    let output = check(&dir, &["--access", "access"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let missing = "error: delete configmaps in API group \"\": used by a test and not granted";
    assert!(output.stdout.contains(missing), "{output:?}");

    let report = json!({"user": "system:serviceaccount:default:greeter", "used": [{
        "apiGroup": "", "resource": "", "verb": "get", "namespace": "", "allowed": true, "count": 1,
        "nonResourceURL": "/metrics",
    }], "denied": [], "unused": [], "minimal": []});
    dir.write("access/c.json", &report.to_string());
    let output = check(&dir, &["--access", "access"]);
    let missing = "error: get /metrics: used by a test and not granted";
    assert!(output.stdout.contains(missing), "{output:?}");
}

/// Returns the lines of findings about permissions.
fn findings(stdout: &str) -> Vec<&str> {
    let findings = stdout.lines().filter(|line| line.contains(": ") && line.contains("API group"));
    findings.filter(|line| !line.starts_with(' ')).collect()
}
