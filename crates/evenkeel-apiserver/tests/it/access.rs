//! The access trail: permissions that are checked within a request.

use evenkeel_apiserver::identity::Identity;
use evenkeel_apiserver::{AccessReport, AccessTrail, ApiServer, CountedAccess};
use http::Method;
use serde_json::{Value, json};

use crate::harness::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Starts a server that records accesses, and grants rules to bob.
async fn cluster(rules: Value) -> Cluster {
    let builder = ApiServer::builder()
        .seed(1)
        .rbac()
        .record_access(AccessTrail::default())
        .enable_admission_plugins(["OwnerReferencesPermissionEnforcement"]);
    let cluster = Cluster::built(builder).await;
    let role = json!({"metadata": {"name": "bob"}, "rules": rules});
    cluster.post(&format!("{RBAC}/clusterroles"), role).await.expect(201);
    let binding = binding("bob", "ClusterRole", "bob");
    cluster.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
    cluster
}

fn binding(name: &str, kind: &str, role: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}],
    })
}

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
}

async fn as_bob(cluster: &Cluster, method: Method, path: &str, body: Value) -> TestResponse {
    let bob = cluster.server.service_as(Identity::authenticated("bob", ["dev"]));
    send(bob, method, path, &[("content-type", "application/json")], body.to_string()).await
}

fn report(cluster: &Cluster) -> AccessReport {
    cluster.server.access_report("bob").unwrap()
}

/// Returns accesses as `verb resource name`.
fn printed(accesses: &[CountedAccess]) -> Vec<String> {
    let print = |it: &CountedAccess| {
        let names = it.resource_names.join(",");
        format!("{} {} {names}", it.access.verb, it.access.resource).trim().to_owned()
    };
    accesses.iter().map(print).collect()
}

#[tokio::test(start_paused = true)]
async fn impersonation_is_recorded_once_as_the_mode_that_counts() {
    let cluster = cluster(json!([
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"],
         "resourceNames": ["eve"]},
    ]))
    .await;
    let bob = || cluster.server.service_as(Identity::authenticated("bob", ["dev"]));
    for (user, status) in [("eve", 200), ("mallory", 403)] {
        let headers = [("impersonate-user", user)];
        let response = send(bob(), Method::GET, "/version", &headers, "").await;
        assert_eq!(response.status, status, "{user}");
    }
    let report = report(&cluster);
    assert_eq!(printed(&report.used), ["impersonate users eve"]);
    assert_eq!(printed(&report.denied), ["impersonate users mallory"]);
    assert!(report.unused.is_empty(), "{report}");
}

#[tokio::test(start_paused = true)]
async fn escalate_and_bind_are_recorded_where_they_are_needed() {
    let group = "rbac.authorization.k8s.io";
    let cluster = cluster(json!([
        rule(&["create", "escalate"], group, &["roles"]),
        rule(&["create"], group, &["clusterroles", "rolebindings"]),
        rule(&["get"], "", &["pods"]),
    ]))
    .await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let more = json!({"metadata": {"name": "more"}, "rules": [rule(&["delete"], "", &["pods"])]});
    as_bob(&cluster, Method::POST, &roles, more.clone()).await.expect(201);
    let cluster_roles = format!("{RBAC}/clusterroles");
    let own = json!({"metadata": {"name": "own"}, "rules": [rule(&["get"], "", &["pods"])]});
    as_bob(&cluster, Method::POST, &cluster_roles, own).await.expect(201);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    as_bob(&cluster, Method::POST, &bindings, binding("a", "ClusterRole", "own")).await.expect(201);
    as_bob(&cluster, Method::POST, &bindings, binding("b", "Role", "more")).await.expect(403);
    as_bob(&cluster, Method::POST, &cluster_roles, more).await.expect(403);
    let report = report(&cluster);
    assert_eq!(
        printed(&report.used),
        ["create clusterroles", "create rolebindings", "create roles", "escalate roles"]
    );
    assert_eq!(printed(&report.denied), ["escalate clusterroles", "bind roles more"]);
}

#[tokio::test(start_paused = true)]
async fn approvals_are_recorded_by_signer() {
    let group = "certificates.k8s.io";
    let cluster = cluster(json!([
        rule(&["update"], group, &["certificatesigningrequests/approval"]),
        {"verbs": ["approve"], "apiGroups": [group], "resources": ["signers"],
         "resourceNames": ["example.com/*"]},
    ]))
    .await;
    for (name, signer, status) in [("a", "example.com/s", 200), ("b", "other.com/s", 403)] {
        let request = json!({
            "metadata": {"name": name},
            "spec": {
                "request": crate::certificates::OF_DEV, "signerName": signer,
                "usages": ["client auth"],
            },
        });
        let mut request = cluster.post(REQUESTS, request).await.expect(201);
        let approved = json!({"type": "Approved", "status": "True", "reason": "R"});
        request["status"] = json!({"conditions": [approved]});
        let path = format!("{REQUESTS}/{name}/approval");
        as_bob(&cluster, Method::PUT, &path, request).await.expect(status);
    }
    let report = report(&cluster);
    let update = "update certificatesigningrequests/approval a,b";
    assert_eq!(printed(&report.used), [update, "approve signers example.com/*"]);
    assert_eq!(printed(&report.denied), ["approve signers other.com/s"]);
    assert!(report.unused.is_empty(), "{report}");
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_owners_are_recorded_by_their_resource() {
    let cluster = cluster(json!([
        rule(&["create"], "", &["configmaps"]),
        rule(&["update"], "*", &["*/finalizers"]),
    ]))
    .await;
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1",
        "blockOwnerDeletion": true,
    });
    let owned = json!({"metadata": {"name": "m", "ownerReferences": [owner]}});
    as_bob(&cluster, Method::POST, CONFIG_MAPS, owned).await.expect(201);
    let report = report(&cluster);
    assert_eq!(printed(&report.used), ["create configmaps", "update deployments/finalizers web"]);
    assert!(report.unused.is_empty(), "{report}");
    let finalizers = &report.minimal.last().unwrap().rules[1];
    assert_eq!(finalizers.api_groups, ["apps"], "the wildcard is not needed");
}
