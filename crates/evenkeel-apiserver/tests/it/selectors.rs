//! Label and field selectors, in lists.

use serde_json::json;

use crate::harness::{CONFIG_MAPS, Cluster, PODS, WIDGETS, labelled, pod, widget};

/// Creates ConfigMaps `l0` to `l4` with labels `n` (their number) and `par` (even or odd), and
/// `bare` without labels.
async fn numbered() -> Cluster {
    let cluster = Cluster::new().await;
    for n in 0..5 {
        let parity = if n % 2 == 0 { "even" } else { "odd" };
        let object = labelled(&format!("l{n}"), json!({"n": n.to_string(), "par": parity}));
        cluster.post(CONFIG_MAPS, object).await.expect(201);
    }
    cluster.post(CONFIG_MAPS, labelled("bare", json!({}))).await.expect(201);
    cluster
}

#[tokio::test(start_paused = true)]
async fn label_selectors_match_as_upstream() {
    let cluster = numbered().await;
    let cases: &[(&str, &[&str])] = &[
        ("par%3Deven", &["l0", "l2", "l4"]),
        ("par%3D%3Dodd", &["l1", "l3"]),
        ("par!%3Deven", &["bare", "l1", "l3"]),
        ("par+in+(even,odd),n!%3D3", &["l0", "l1", "l2", "l4"]),
        ("par+notin+(even)", &["bare", "l1", "l3"]),
        ("par,n+notin+(1,2)", &["l0", "l3", "l4"]),
        ("!par", &["bare"]),
        ("n%3E2", &["l3", "l4"]),
        ("n%3C1", &["l0"]),
        ("par+in+()", &[]),
        ("par%3D%3D", &[]),
        ("", &["bare", "l0", "l1", "l2", "l3", "l4"]),
    ];
    for (selector, expected) in cases {
        let path = format!("{CONFIG_MAPS}?labelSelector={selector}");
        assert_eq!(cluster.names(&path).await, *expected, "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_label_selectors_are_rejected_with_the_reason() {
    let cluster = Cluster::new().await;
    let cases = [
        ("a+b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        (
            "n%3Cx",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' \
             operators, the value must be an integer",
        ),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("a+in+(b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a%3Db%3Dc", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "par%3D$$",
            "unable to parse requirement: values[0][par]: Invalid value: \"$$\": a valid label \
             must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
             must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  \
             or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ];
    for (selector, message) in cases {
        let path = format!("{CONFIG_MAPS}?labelSelector={selector}");
        cluster.get(&path).await.expect_error(400, "BadRequest", message);
    }
}

#[tokio::test(start_paused = true)]
async fn field_selectors_support_name_and_namespace_of_every_kind() {
    let cluster = numbered().await;
    let cases: &[(&str, &[&str])] = &[
        ("metadata.name%3Dl1", &["l1"]),
        ("metadata.name%3D%3Dl1", &["l1"]),
        ("metadata.name!%3Dl1,metadata.namespace%3Ddefault", &["bare", "l0", "l2", "l3", "l4"]),
        ("metadata.namespace%3Delsewhere", &[]),
        ("metadata.name%3Dnone", &[]),
        ("metadata.name%3Dl1,metadata.name%3Dl2", &[]),
    ];
    for (selector, expected) in cases {
        let path = format!("{CONFIG_MAPS}?fieldSelector={selector}");
        assert_eq!(cluster.names(&path).await, *expected, "{selector}");
    }
    let both = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dl1&labelSelector=par%3Deven");
    assert_eq!(cluster.names(&both).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn invalid_field_selectors_are_rejected_with_the_reason() {
    let cluster = Cluster::with_widgets().await;
    let known = "only \"metadata.name\", \"metadata.namespace\"";
    let cases = [
        (CONFIG_MAPS, "spec.x%3D1", format!("\"spec.x\" is not a known field selector: {known}")),
        (
            CONFIG_MAPS,
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'".to_owned(),
        ),
        (
            CONFIG_MAPS,
            "metadata.name%3Da%3Db",
            "invalid field selector: unescaped character in value: 61".to_owned(),
        ),
        (PODS, "spec.foo%3D1", "field label not supported: spec.foo".to_owned()),
        (WIDGETS, "spec.note%3D1", "field label not supported: spec.note".to_owned()),
    ];
    for (collection, selector, message) in cases {
        let path = format!("{collection}?fieldSelector={selector}");
        cluster.get(&path).await.expect_error(400, "BadRequest", &message);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_selected_by_phase_and_node() {
    let cluster = Cluster::new().await;
    cluster.post(PODS, pod("waiting")).await.expect(201);
    let mut placed = pod("placed");
    placed["spec"]["nodeName"] = "n1".into();
    cluster.post(PODS, placed).await.expect(201);
    let status = json!({"status": {"phase": "Running"}});
    cluster.merge(&format!("{PODS}/placed/status"), status).await.expect(200);

    let cases: &[(&str, &[&str])] = &[
        ("status.phase%3DRunning", &["placed"]),
        ("spec.nodeName%3D", &["waiting"]),
        ("spec.nodeName!%3Dn1,status.phase%3DPending", &["waiting"]),
    ];
    for (selector, expected) in cases {
        let path = format!("{PODS}?fieldSelector={selector}");
        assert_eq!(cluster.names(&path).await, *expected, "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_selected_by_selectable_fields() {
    let cluster = Cluster::with_widgets().await;
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        cluster.post(WIDGETS, widget(name, json!({"color": color}))).await.expect(201);
    }
    let red = format!("{WIDGETS}?fieldSelector=spec.color%3Dred");
    assert_eq!(cluster.names(&red).await, ["a", "c"]);
    cluster.merge(&format!("{WIDGETS}/a"), json!({"spec": {"color": "blue"}})).await.expect(200);
    assert_eq!(cluster.names(&red).await, ["c"]);
}

#[tokio::test(start_paused = true)]
async fn null_label_is_stored_as_empty() {
    let cluster = Cluster::with_widgets().await;
    let mut odd = widget("odd", json!({"color": "red"}));
    odd["metadata"]["labels"] = json!({"tier": null});
    let created = cluster.apply(&format!("{WIDGETS}/odd"), "m", odd).await.expect(201);
    assert_eq!(created["metadata"]["labels"], json!({"tier": ""}));
    assert_eq!(cluster.names(&format!("{WIDGETS}?labelSelector=tier%3D")).await, ["odd"]);
    assert_eq!(cluster.names(&format!("{WIDGETS}?labelSelector=!tier")).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn each_version_of_a_crd_selects_by_its_own_fields() {
    let cluster = Cluster::new().await;
    let version = |name: &str, selectable: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v2",
            "selectableFields": [{"jsonPath": selectable}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "integer"},
                // Upstream rejects selectable fields where all versions have one schema.
                name: {"type": "string"},
            }}},
        })
    };
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "gears", "kind": "Gear"},
            "versions": [version("v1", ".a"), version("v2", ".b")],
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.post(crds, crd).await.expect(201);
    let gear = json!({
        "apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "g"},
        "a": "1", "b": "2", "c": 3,
    });
    cluster.post("/apis/example.com/v1/gears", gear).await.expect(201);
    let matches = async |version: &str, selector: &str| {
        let path = format!("/apis/example.com/{version}/gears?fieldSelector={selector}");
        !cluster.names(&path).await.is_empty()
    };
    assert!(matches("v1", "a%3D1").await);
    assert!(matches("v2", "b%3D2").await);
    assert!(!matches("v2", "b%3D1").await);

    // A field that is declared later selects objects that were stored before.
    let versions = json!([version("v1", ".c"), version("v2", ".b")]);
    let path = format!("{crds}/gears.example.com");
    cluster.merge(&path, json!({"spec": {"versions": versions}})).await.expect(200);
    assert!(matches("v1", "c%3D3").await);
    assert!(!matches("v1", "c%3D").await);
}
