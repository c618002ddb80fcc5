//! `evenkeel manifests` with the operator of the README.

use crate::support::{TempDir, operator, run};

fn render(dir: &TempDir, arguments: &[&str]) -> crate::support::Output {
    let operator = operator().to_str().unwrap();
    run(&dir.0, &[&["manifests", "--binary", operator], arguments].concat())
}

#[test]
fn yaml_has_everything_that_the_operator_needs() {
    let dir = TempDir::new("yaml");
    dir.write("evenkeel.toml", "namespace = \"greetings\"\nreplicas = 2\n");
    let text = render(&dir, &[]).success().stdout;
    let kinds: Vec<&str> = text.lines().filter_map(|it| it.strip_prefix("kind: ")).collect();
    for kind in [
        "Namespace",
        "CustomResourceDefinition",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "Deployment",
        "PodDisruptionBudget",
        "NetworkPolicy",
    ] {
        assert!(kinds.contains(&kind), "{kind} is missing: {kinds:?}");
    }
    assert!(text.contains("  namespace: greetings\n"), "{text}");
    assert!(text.contains("greetings.example.com"), "{text}");
    assert!(!kinds.contains(&"ServiceMonitor"));
}

#[test]
fn changed_operator_is_reported_as_drift() {
    let dir = TempDir::new("drift");
    for format in ["yaml", "kustomize", "helm"] {
        let arguments = ["--format", format, "--output", format];
        render(&dir, &arguments).success();
        let check = [&arguments[..], &["--check"]].concat();
        let output = render(&dir, &check).success();
        assert!(output.stderr.contains("is up to date"), "{output:?}");
        dir.write("evenkeel.toml", "replicas = 3\n");
        let output = render(&dir, &check);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stdout.contains("replicas: 3\n"), "{output:?}");
        std::fs::remove_file(dir.0.join("evenkeel.toml")).unwrap();
    }
}

#[test]
fn helm_chart_has_values_for_what_differs_between_installations() {
    let dir = TempDir::new("helm");
    render(&dir, &["--format", "helm", "--output", "chart"]).success();
    let read = |path: &str| std::fs::read_to_string(dir.0.join("chart").join(path)).unwrap();
    assert!(read("Chart.yaml").contains("name: greeter\n"));
    let deployment = read("templates/06-deployment.yaml");
    assert!(deployment.contains("image: {{ .Values.image | quote }}"), "{deployment}");
    assert!(deployment.contains("namespace: {{ .Release.Namespace }}"), "{deployment}");
    assert!(read("values.yaml").contains("replicas: 1\n"));
    assert!(!dir.0.join("chart/templates/01-namespace.yaml").exists());
}

#[test]
fn programs_without_a_description_and_invalid_settings_are_explained() {
    let dir = TempDir::new("other");
    let output = run(&dir.0, &["manifests", "--binary", "/bin/true"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("the operator printed no description"), "{output:?}");
    dir.write("evenkeel.toml", "replica = 3\n");
    let output = render(&dir, &[]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("unknown field `replica`"), "{output:?}");
    let output = render(&dir, &["--format", "helm"]);
    assert_eq!(output.code, Some(2));
}
