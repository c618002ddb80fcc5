//! Authorization by roles and bindings.

use evenkeel_apiserver::identity::Identity;
use evenkeel_apiserver::{ApiServer, Attributes, AuthorizationMode, Authorizer, Decision};
use http::Method;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Cluster, TestResponse, send};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

async fn cluster() -> Cluster {
    Cluster::built(ApiServer::builder().seed(1).rbac()).await
}

fn bob() -> Identity {
    Identity::authenticated("bob", ["dev"])
}

/// Sends a request as bob.
async fn as_bob(cluster: &Cluster, method: Method, path: &str, body: Value) -> TestResponse {
    let headers = match method {
        Method::PATCH => [("content-type", "application/apply-patch+yaml")],
        _ => [("content-type", "application/json")],
    };
    send(cluster.server.service_as(bob()), method, path, &headers, body.to_string()).await
}

async fn get(cluster: &Cluster, path: &str) -> TestResponse {
    as_bob(cluster, Method::GET, path, Value::Null).await
}

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}],
    })
}

/// Grants rules to bob in namespace default.
async fn grant(cluster: &Cluster, name: &str, rules: Value) {
    let path = |plural: &str| format!("{RBAC}/namespaces/default/{plural}");
    cluster.post(&path("roles"), role(name, rules)).await.expect(201);
    cluster.post(&path("rolebindings"), binding(name, "Role", name)).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn bindings_take_effect_with_their_create_and_end_with_their_delete() {
    let cluster = cluster().await;
    let denied = get(&cluster, CONFIG_MAPS).await.expect(403);
    assert_eq!(
        denied["message"],
        "configmaps is forbidden: User \"bob\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"default\""
    );
    let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}]);
    grant(&cluster, "reader", rules).await;
    get(&cluster, CONFIG_MAPS).await.expect(200);
    get(&cluster, "/api/v1/namespaces/kube-system/configmaps").await.expect(403);

    let path = format!("{RBAC}/namespaces/default/roles/reader");
    cluster.delete(&path).await.expect(200);
    let denied = get(&cluster, CONFIG_MAPS).await.expect(403);
    assert!(
        denied["message"].as_str().unwrap().ends_with(
            "in the namespace \"default\": RBAC: role.rbac.authorization.k8s.io \"reader\" not found"
        ),
        "{denied}"
    );
    cluster.delete(&format!("{RBAC}/namespaces/default/rolebindings/reader")).await.expect(200);
    get(&cluster, CONFIG_MAPS).await.expect(403);
}

#[tokio::test(start_paused = true)]
async fn roles_survive_a_restart() {
    let dir = std::env::temp_dir().join(format!("evenkeel-rbac-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let builder = || ApiServer::builder().seed(1).rbac().data_dir(&dir);
    let first = Cluster::built(builder()).await;
    let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}]);
    grant(&first, "reader", rules).await;
    drop(first);
    let second = Cluster::built(builder()).await;
    get(&second, CONFIG_MAPS).await.expect(200);
    drop(second);
    let _ = std::fs::remove_dir_all(&dir);
}

#[tokio::test(start_paused = true)]
async fn a_restart_adds_missing_bootstrap_rules_and_subjects() {
    let dir = std::env::temp_dir().join(format!("evenkeel-rbac-start-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let builder = || ApiServer::builder().seed(1).rbac().data_dir(&dir);
    let first = Cluster::built(builder()).await;
    let basic = format!("{RBAC}/clusterroles/system:basic-user");
    let discovery = format!("{RBAC}/clusterroles/system:discovery");
    let subjects = format!("{RBAC}/clusterrolebindings/cluster-admin");
    let bound = format!("{RBAC}/clusterrolebindings/system:basic-user");
    let view = format!("{RBAC}/clusterroles/view");
    let expected = first.get(&basic).await.expect(200)["rules"].clone();
    let own = json!({"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]});
    first.merge(&basic, json!({"rules": [own]})).await.expect(200);
    let protected = json!({
        "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}},
        "rules": null,
    });
    first.merge(&discovery, protected).await.expect(200);
    first.merge(&subjects, json!({"subjects": null})).await.expect(200);
    let uid = first.get(&bound).await.expect(200)["metadata"]["uid"].clone();
    first.delete(&bound).await.expect(200);
    let mut other = binding("system:basic-user", "ClusterRole", "view");
    other["subjects"] = json!([]);
    first.post(&format!("{RBAC}/clusterrolebindings"), other).await.expect(201);
    let unchanged = first.get(&view).await.expect(200)["metadata"]["resourceVersion"].clone();
    drop(first);

    let second = Cluster::built(builder()).await;
    let rules = second.get(&basic).await.expect(200)["rules"].as_array().unwrap().clone();
    assert_eq!(rules[0], own);
    assert!(rules.len() > expected.as_array().unwrap().len(), "{rules:?}");
    as_bob(
        &second,
        Method::POST,
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/api"}}}),
    )
    .await
    .expect(201);
    assert_eq!(second.get(&discovery).await.expect(200).get("rules"), Some(&Value::Null));
    assert_eq!(second.get(&subjects).await.expect(200)["subjects"][0]["name"], "system:masters");
    let recreated = second.get(&bound).await.expect(200);
    assert_eq!(recreated["roleRef"]["name"], "system:basic-user");
    assert_ne!(recreated["metadata"]["uid"], uid);
    let view = second.get(&view).await.expect(200);
    assert_eq!(view["metadata"]["resourceVersion"], unchanged);
    drop(second);
    let _ = std::fs::remove_dir_all(&dir);
}

#[tokio::test(start_paused = true)]
async fn resource_names_apply_to_lists_that_select_the_name() {
    let cluster = cluster().await;
    let rules = json!([{
        "verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["configmaps"],
        "resourceNames": ["settings"],
    }]);
    grant(&cluster, "reader", rules).await;
    get(&cluster, &format!("{CONFIG_MAPS}/settings")).await.expect(404);
    get(&cluster, &format!("{CONFIG_MAPS}/other")).await.expect(403);
    get(&cluster, CONFIG_MAPS).await.expect(403);
    let selected = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dsettings");
    get(&cluster, &selected).await.expect(200);
    let excluded = format!("{CONFIG_MAPS}?fieldSelector=metadata.name!%3Dsettings");
    get(&cluster, &excluded).await.expect(403);
}

#[tokio::test(start_paused = true)]
async fn creating_by_put_or_apply_needs_the_verb_create() {
    let cluster = cluster().await;
    let verbs = |verbs: Value| {
        json!([
            {"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]},
            {"verbs": verbs, "apiGroups": [""], "resources": ["configmaps"]},
        ])
    };
    grant(&cluster, "writer", verbs(json!(["update", "patch"]))).await;
    let lease = json!({"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}});
    let put =
        async || as_bob(&cluster, Method::PUT, &format!("{LEASES}/leader"), lease.clone()).await;
    let apply = async || {
        let path = format!("{CONFIG_MAPS}/settings?fieldManager=test");
        as_bob(&cluster, Method::PATCH, &path, map.clone()).await
    };
    let denied = put().await.expect(403);
    assert_eq!(
        denied["message"],
        "leases.coordination.k8s.io \"leader\" is forbidden: User \"bob\" cannot create resource \
         \"leases\" in API group \"coordination.k8s.io\" in the namespace \"default\""
    );
    apply().await.expect(403);
    grant(&cluster, "creator", verbs(json!(["create"]))).await;
    put().await.expect(201);
    apply().await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn permissions_that_a_user_lacks_cannot_be_granted() {
    let cluster = cluster().await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let group = json!(["rbac.authorization.k8s.io"]);
    let manage = json!([
        {"verbs": ["create", "update"], "apiGroups": group, "resources": ["roles", "rolebindings"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
    ]);
    grant(&cluster, "manager", manage).await;
    let pods = |verbs: Value| json!([{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}]);

    as_bob(&cluster, Method::POST, &roles, role("own", pods(json!(["get"])))).await.expect(201);
    let denied = role("more", pods(json!(["get", "delete", "list"])));
    let denied = as_bob(&cluster, Method::POST, &roles, denied).await.expect(403);
    assert_eq!(
        denied["message"],
        "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"bob\" \
         (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not \
         currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"list\"]}"
    );
    let widened = role("own", pods(json!(["*"])));
    let path = format!("{roles}/own");
    as_bob(&cluster, Method::PUT, &path, widened.clone()).await.expect(403);

    let admin = binding("admins", "ClusterRole", "cluster-admin");
    as_bob(&cluster, Method::POST, &bindings, admin.clone()).await.expect(403);
    let missing = binding("admins", "ClusterRole", "none");
    let missing = as_bob(&cluster, Method::POST, &bindings, missing).await.expect(404);
    // Named after the resource of the request, as upstream.
    assert_eq!(missing["message"], "rolebindings.rbac.authorization.k8s.io \"none\" not found");

    // The verbs `escalate` and `bind` allow it.
    let verbs = json!([
        {"verbs": ["escalate"], "apiGroups": group, "resources": ["roles"]},
        {"verbs": ["bind"], "apiGroups": group, "resources": ["clusterroles"],
         "resourceNames": ["cluster-admin"]},
    ]);
    grant(&cluster, "escalator", verbs).await;
    as_bob(&cluster, Method::PUT, &path, widened).await.expect(200);
    as_bob(&cluster, Method::POST, &bindings, admin).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn an_aggregation_rule_needs_all_permissions() {
    let cluster = cluster().await;
    let group = "rbac.authorization.k8s.io";
    let rules = json!([
        {"verbs": ["create", "update"], "apiGroups": [group], "resources": ["clusterroles"]},
    ]);
    cluster.post(&format!("{RBAC}/clusterroles"), role("manager", rules)).await.expect(201);
    let manager = binding("manager", "ClusterRole", "manager");
    cluster.post(&format!("{RBAC}/clusterrolebindings"), manager).await.expect(201);
    let roles = format!("{RBAC}/clusterroles");
    let mut aggregated = role("aggregated", json!([]));
    aggregated["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let message = "clusterroles.rbac.authorization.k8s.io \"aggregated\" is forbidden: must have \
                   cluster-admin privileges to use the aggregationRule";
    let refused = as_bob(&cluster, Method::POST, &roles, aggregated.clone()).await;
    refused.expect_error(403, "Forbidden", message);
    // To remove it needs them, too.
    cluster.post(&roles, aggregated).await.expect(201);
    let path = format!("{roles}/aggregated");
    let removed = as_bob(&cluster, Method::PUT, &path, role("aggregated", json!([]))).await;
    removed.expect_error(403, "Forbidden", message);

    let all = json!([
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]);
    cluster.post(&roles, role("all", all)).await.expect(201);
    let all = binding("all", "ClusterRole", "all");
    cluster.post(&format!("{RBAC}/clusterrolebindings"), all).await.expect(201);
    as_bob(&cluster, Method::PUT, &path, role("aggregated", json!([]))).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn owners_and_finalizers_of_a_role_can_be_changed_without_its_permissions() {
    let cluster = cluster().await;
    let group = json!(["rbac.authorization.k8s.io"]);
    let rules =
        json!([{"verbs": ["update"], "apiGroups": group, "resources": ["roles", "rolebindings"]}]);
    grant(&cluster, "manager", rules).await;
    let rules = json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}]);
    grant(&cluster, "more", rules).await;
    // Not bound to bob.
    let path = format!("{RBAC}/namespaces/default/rolebindings/more");
    let mut object = cluster.get(&path).await.expect(200);
    object["subjects"] = json!([]);
    cluster.put(&path, object.clone()).await.expect(200);

    for plural in ["roles", "rolebindings"] {
        let path = format!("{RBAC}/namespaces/default/{plural}/more");
        let mut object = cluster.get(&path).await.expect(200);
        object["metadata"]["finalizers"] = json!(["example.com/f"]);
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": "1"}]);
        let mut changed = as_bob(&cluster, Method::PUT, &path, object).await.expect(200);
        changed["metadata"]["labels"] = json!({"a": "b"});
        as_bob(&cluster, Method::PUT, &path, changed).await.expect(403);
    }
}

#[tokio::test(start_paused = true)]
async fn the_extra_of_a_reviewed_user_is_passed_to_the_authorizer() {
    struct ByExtra;
    impl Authorizer for ByExtra {
        fn decide(&self, attributes: &Attributes<'_>) -> Decision {
            let scopes = attributes.user.extra.get("scopes").map(Vec::as_slice);
            let scoped = scopes == Some(&["a".to_owned(), "b".to_owned()][..]);
            match scoped || attributes.user.user == "admin" {
                true => Decision::Allow,
                false => Decision::Deny(String::new()),
            }
        }
    }
    let cluster = Cluster::built(ApiServer::builder().seed(1).authorizer(ByExtra)).await;
    for (extra, allowed) in [(json!({"scopes": ["a", "b"]}), true), (json!({}), false)] {
        let body = json!({"spec": {
            "user": "bob", "extra": extra,
            "resourceAttributes": {"verb": "get", "resource": "pods"},
        }});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let review = cluster.post(path, body).await.expect(201);
        assert_eq!(review["status"]["allowed"], allowed, "{extra}");
    }
}

#[tokio::test(start_paused = true)]
async fn bootstrap_roles_are_those_of_upstream() {
    let cluster = cluster().await;
    for (plural, count) in
        [("clusterroles", 69), ("clusterrolebindings", 50), ("roles", 7), ("rolebindings", 7)]
    {
        let list = cluster.get(&format!("{RBAC}/{plural}")).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), count, "{plural}");
    }
    let admin = cluster.get(&format!("{RBAC}/clusterroles/cluster-admin")).await.expect(200);
    assert_eq!(
        admin["rules"],
        json!([
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ])
    );
    // Discovery for authenticated users, health checks for all.
    get(&cluster, "/apis").await.expect(200);
    get(&cluster, "/metrics").await.expect(403);
    let anonymous =
        async |path: &str| cluster.send_as(Identity::anonymous(), Method::GET, path).await.status;
    assert_eq!(anonymous("/healthz").await, 200);
    assert_eq!(anonymous("/version").await, 200);
    assert_eq!(anonymous("/apis").await, 403);
}

#[tokio::test(start_paused = true)]
async fn access_reviews_give_the_reason() {
    let cluster = cluster().await;
    let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}]);
    grant(&cluster, "reader", rules.clone()).await;
    let reviews = "/apis/authorization.k8s.io/v1";
    let review = async |verb: &str| {
        let body = json!({"spec": {"resourceAttributes": {
            "namespace": "default", "verb": verb, "resource": "configmaps",
        }}});
        let path = format!("{reviews}/selfsubjectaccessreviews");
        as_bob(&cluster, Method::POST, &path, body).await.expect(201)["status"].clone()
    };
    assert_eq!(
        review("list").await,
        json!({
            "allowed": true,
            "reason": "RBAC: allowed by RoleBinding \"reader/default\" of Role \"reader\" to User \
                       \"bob\"",
        })
    );
    assert_eq!(review("delete").await, json!({"allowed": false}));

    let path = format!("{reviews}/selfsubjectrulesreviews");
    let body = json!({"spec": {"namespace": "default"}});
    let status = as_bob(&cluster, Method::POST, &path, body).await.expect(201)["status"].clone();
    let resource_rules = status["resourceRules"].as_array().unwrap();
    assert!(resource_rules.contains(&rules[0]), "{status}");
    assert_eq!(status["incomplete"], false);
}

#[tokio::test(start_paused = true)]
async fn always_deny_allows_members_of_system_masters_only() {
    let built = |modes: &[AuthorizationMode]| {
        Cluster::built(ApiServer::builder().seed(1).authorization_modes(modes.to_vec()))
    };
    let cluster = built(&[AuthorizationMode::AlwaysDeny]).await;
    get(&cluster, CONFIG_MAPS).await.expect_error(
        403,
        "Forbidden",
        "configmaps is forbidden: User \"bob\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"default\": Everything is forbidden.",
    );
    get(&cluster, "/healthz").await.expect(403);
    cluster.get(CONFIG_MAPS).await.expect(200);
    let cluster = built(&[AuthorizationMode::AlwaysDeny, AuthorizationMode::AlwaysAllow]).await;
    get(&cluster, CONFIG_MAPS).await.expect(200);
}
