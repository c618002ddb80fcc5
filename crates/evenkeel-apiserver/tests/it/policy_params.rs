//! The permissions that parameters of admission policies require.

use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::identity::Identity;
use http::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, TestResponse, send};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// How Go prints the user of [`as_bob`].
const BOB: &str = "&{bob 7 [dev system:authenticated] map[team:[a b]]}";

/// A server on which bob manages policies and bindings.
async fn cluster() -> Cluster {
    let cluster = Cluster::built(ApiServer::builder().seed(1).rbac()).await;
    grant(&cluster, "policies", "admissionregistration.k8s.io", "*", "*").await;
    cluster
}

/// Grants bob a verb on a resource in all namespaces.
async fn grant(cluster: &Cluster, name: &str, group: &str, resource: &str, verb: &str) {
    let rule = json!({"verbs": [verb], "apiGroups": [group], "resources": [resource]});
    let role = json!({"metadata": {"name": name}, "rules": [rule]});
    cluster.post(&format!("{RBAC}/clusterroles"), role).await.expect(201);
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}],
    });
    cluster.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
}

async fn as_bob(cluster: &Cluster, method: Method, path: &str, body: &Value) -> TestResponse {
    let extra = [("team".to_owned(), vec!["a".to_owned(), "b".to_owned()])].into();
    let mut bob = Identity::authenticated("bob", ["dev"]);
    (bob.uid, bob.extra) = ("7".to_owned(), extra);
    let content_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let headers = [("content-type", content_type)];
    let path = format!("{ADMISSION}/{path}");
    send(cluster.server.service_as(bob), method, &path, &headers, body.to_string()).await
}

/// A validating or mutating policy with parameters of a kind.
fn policy(family: &str, name: &str, api_version: &str, kind: &str) -> Value {
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["secrets"],
        }]},
        "paramKind": {"apiVersion": api_version, "kind": kind},
    });
    if family == "validating" {
        spec["validations"] = json!([{"expression": "params != null"}]);
    } else {
        spec["reinvocationPolicy"] = json!("Never");
        spec["mutations"] = json!([{
            "patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"},
        }]);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn binding(family: &str, policy: &str, reference: &Value) -> Value {
    let mut spec = json!({"policyName": policy, "paramRef": reference});
    spec["paramRef"]["parameterNotFoundAction"] = json!("Deny");
    if family == "validating" {
        spec["validationActions"] = json!(["Deny"]);
    }
    json!({"metadata": {"name": "b"}, "spec": spec})
}

/// The only cause of a rejected object.
async fn cause(response: TestResponse) -> (String, String) {
    let status = response.expect(422);
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 1, "{status}");
    assert_eq!(causes[0]["reason"], "FieldValueForbidden");
    let text = |field: &str| causes[0][field].as_str().unwrap().to_owned();
    (text("field"), text("message"))
}

#[tokio::test(start_paused = true)]
async fn a_policy_needs_the_permission_to_get_all_objects_of_its_param_kind() {
    for family in ["validating", "mutating"] {
        let cluster = cluster().await;
        let policies = format!("{family}admissionpolicies");
        let maps = policy(family, "maps", "v1", "ConfigMap");
        let (field, message) = cause(as_bob(&cluster, Method::POST, &policies, &maps).await).await;
        assert_eq!(field, "spec.paramKind");
        assert_eq!(
            message,
            format!(
                "Forbidden: user {BOB} must have \"get\" permission on all objects of the \
                 referenced paramKind (kind=ConfigMap, apiVersion=v1)"
            )
        );
        grant(&cluster, "list-maps", "", "configmaps", "list").await;
        as_bob(&cluster, Method::POST, &policies, &maps).await.expect(422);
        grant(&cluster, "get-maps", "", "configmaps", "get").await;
        as_bob(&cluster, Method::POST, &policies, &maps).await.expect(201);

        // A kind that is not served needs all resources of its group.
        let widgets = policy(family, "widgets", "example.com/v1", "Widget");
        grant(&cluster, "get-widgets", "example.com", "widgets", "get").await;
        as_bob(&cluster, Method::POST, &policies, &widgets).await.expect(422);
        grant(&cluster, "get-example", "example.com", "*", "get").await;
        as_bob(&cluster, Method::POST, &policies, &widgets).await.expect(201);
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_of_a_policy_needs_it_for_another_param_kind_only() {
    let cluster = cluster().await;
    let policies = format!("{ADMISSION}/validatingadmissionpolicies");
    // The administrator needs no permission.
    cluster.post(&policies, policy("validating", "p", "v1", "ConfigMap")).await.expect(201);
    let path = "validatingadmissionpolicies/p";
    let labels = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"failurePolicy": "Ignore"}});
    as_bob(&cluster, Method::PATCH, path, &labels).await.expect(200);
    let other = json!({"spec": {"paramKind": {"kind": "Secret"}}});
    let (field, _) = cause(as_bob(&cluster, Method::PATCH, path, &other).await).await;
    assert_eq!(field, "spec.paramKind");
    let none = json!({"spec": {"paramKind": null, "validations": [{"expression": "true"}]}});
    as_bob(&cluster, Method::PATCH, path, &none).await.expect(200);
    // An error of the object is reported instead.
    let invalid = json!({"spec": {"paramKind": {"apiVersion": "v1", "kind": "Secret"},
                                  "failurePolicy": "None"}});
    let status = as_bob(&cluster, Method::PATCH, path, &invalid).await.expect(422);
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 1, "{status}");
    assert_eq!(causes[0]["field"], "spec.failurePolicy");
}

#[tokio::test(start_paused = true)]
async fn a_binding_needs_the_permission_to_read_its_parameters() {
    for family in ["validating", "mutating"] {
        let cluster = cluster().await;
        let bindings = format!("{family}admissionpolicybindings");
        let create = async |policy: &str, reference: &Value| {
            let body = binding(family, policy, reference);
            as_bob(&cluster, Method::POST, &bindings, &body).await
        };
        let policies = format!("{ADMISSION}/{family}admissionpolicies");
        for (name, api_version, kind) in
            [("maps", "v1", "ConfigMap"), ("widgets", "example.com/v1", "Widget")]
        {
            let body = policy(family, name, api_version, kind);
            cluster.post(&policies, body).await.expect(201);
        }
        let named = json!({"name": "limits", "namespace": "default"});
        let selected = json!({"selector": {"matchLabels": {"a": "b"}}});
        let unknown = |what: &str| {
            format!(
                "Forbidden: unable to {what} to determine minimum required permissions and user \
                 {BOB} does not have \"get\" permission for all groups, versions and resources"
            )
        };
        // Upstream's message about mutating policies has the user and the verb swapped.
        let denied = |verb: &str| {
            let (first, second) = if family == "validating" { (BOB, verb) } else { (verb, BOB) };
            format!(
                "Forbidden: user {first} does not have \"{second}\" permission on the object \
                 referenced by paramRef"
            )
        };
        for (policy, reference, message) in [
            ("none", &named, unknown("get policy none")),
            ("widgets", &named, unknown("resolve paramKind &{example.com/v1 Widget}")),
            ("maps", &named, denied("get")),
            ("maps", &selected, denied("list")),
        ] {
            let found = cause(create(policy, reference).await).await;
            assert_eq!(found, ("spec.paramRef".to_owned(), message), "{family} {policy}");
        }
        grant(&cluster, "get-maps", "", "configmaps", "get").await;
        create("maps", &selected).await.expect(422);
        create("maps", &named).await.expect(201);
    }
}

#[tokio::test(start_paused = true)]
async fn every_update_of_a_binding_with_parameters_needs_it() {
    let cluster = cluster().await;
    let body = policy("validating", "maps", "v1", "ConfigMap");
    cluster.post(&format!("{ADMISSION}/validatingadmissionpolicies"), body).await.expect(201);
    let body = binding("validating", "maps", &json!({"name": "limits"}));
    let bindings = format!("{ADMISSION}/validatingadmissionpolicybindings");
    cluster.post(&bindings, body).await.expect(201);
    let path = "validatingadmissionpolicybindings/b";
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    as_bob(&cluster, Method::PATCH, path, &label).await.expect(422);
    let without = json!({"spec": {"paramRef": null}});
    as_bob(&cluster, Method::PATCH, path, &without).await.expect(200);
    as_bob(&cluster, Method::PATCH, path, &label).await.expect(200);
}
