//! API Priority and Fairness: bootstrap objects, and the headers that name what a request matches.

use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::identity::Identity;
use http::Method;
use serde_json::json;

use crate::durability::Scratch;
use crate::harness::*;

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";

/// Returns the names of the FlowSchema and priority level in the headers of a response.
async fn flow_of(cluster: &Cluster, response: &TestResponse) -> (String, String) {
    let mut names = Vec::new();
    for (path, header) in
        [(SCHEMAS, "x-kubernetes-pf-flowschema-uid"), (LEVELS, "x-kubernetes-pf-prioritylevel-uid")]
    {
        let uid = response.header(header);
        let list = cluster.get(path).await.expect(200);
        let found = list["items"].as_array().unwrap().iter();
        let found = found.filter(|item| item["metadata"]["uid"] == uid);
        let found: Vec<String> = found.map(|item| text(&item["metadata"]["name"])).collect();
        assert_eq!(found.len(), 1, "{header}: {uid}");
        names.extend(found);
    }
    (names[0].clone(), names[1].clone())
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_upstream_exist_from_the_start() {
    let cluster = Cluster::new().await;
    assert_eq!(
        cluster.names(SCHEMAS).await,
        [
            "catch-all",
            "exempt",
            "global-default",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-system-service-accounts",
            "probes",
            "service-accounts",
            "system-leader-election",
            "system-node-high",
            "system-nodes",
        ]
    );
    assert_eq!(cluster.names(LEVELS).await.len(), 8);
    let exempt = cluster.get(&format!("{SCHEMAS}/exempt")).await.expect(200);
    assert_eq!(exempt["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"], "true");
    assert_eq!(
        exempt["status"]["conditions"][0]["message"],
        "This FlowSchema references the PriorityLevelConfiguration object named \"exempt\" and it \
         exists"
    );
}

#[tokio::test(start_paused = true)]
async fn responses_name_the_flow_of_their_request() {
    let cluster = Cluster::new().await;
    let flow = |user: &str, groups: Vec<&'static str>, path: &'static str| {
        let cluster = &cluster;
        let identity = Identity::authenticated(user, groups);
        async move {
            let response = cluster.send_as(identity, Method::GET, path).await;
            flow_of(cluster, &response).await
        }
    };
    let pair = |schema: &str, level: &str| (schema.to_owned(), level.to_owned());
    let secrets = "/api/v1/namespaces/default/secrets/none";
    assert_eq!(flow("bob", vec!["dev"], secrets).await, pair("global-default", "global-default"));
    assert_eq!(flow("admin", vec!["system:masters"], secrets).await, pair("exempt", "exempt"));
    assert_eq!(
        flow(
            "system:serviceaccount:kube-system:x",
            vec!["system:serviceaccounts", "system:serviceaccounts:kube-system"],
            secrets
        )
        .await,
        pair("kube-system-service-accounts", "workload-high")
    );
    assert_eq!(
        flow("system:kube-scheduler", vec![], "/api/v1/pods").await,
        pair("kube-scheduler", "workload-high")
    );
    assert_eq!(
        flow(
            "system:kube-scheduler",
            vec![],
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"
        )
        .await,
        pair("system-leader-election", "leader-election")
    );
    assert_eq!(flow("bob", vec!["dev"], "/healthz").await, pair("probes", "exempt"));
}

#[tokio::test(start_paused = true)]
async fn a_new_flow_schema_takes_effect_with_its_create() {
    let cluster = Cluster::new().await;
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": {"name": "mine"},
        "spec": {
            "priorityLevelConfiguration": {"name": "workload-high"},
            "matchingPrecedence": 500,
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "bob"}}],
                "resourceRules": [{
                    "verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"],
                    "namespaces": ["default"],
                }],
            }],
        },
    });
    cluster.post(SCHEMAS, schema).await.expect(201);
    let bob = || Identity::authenticated("bob", ["dev"]);
    let listed = cluster.send_as(bob(), Method::GET, CONFIG_MAPS).await;
    assert_eq!(flow_of(&cluster, &listed).await.0, "mine");
    let path = format!("{CONFIG_MAPS}/none");
    let got = cluster.send_as(bob(), Method::GET, &path).await;
    assert_eq!(flow_of(&cluster, &got).await.0, "global-default");
    cluster.delete(&format!("{SCHEMAS}/mine")).await.expect(200);
    let listed = cluster.send_as(bob(), Method::GET, CONFIG_MAPS).await;
    assert_eq!(flow_of(&cluster, &listed).await.0, "global-default");
}

#[tokio::test]
async fn a_restart_restores_deleted_and_changed_objects() {
    let scratch = Scratch::new();
    let cluster = Cluster::built(ApiServer::builder().data_dir(&scratch.0)).await;
    cluster.delete(&format!("{SCHEMAS}/probes")).await.expect(200);
    let precedence = json!({"spec": {"matchingPrecedence": 4000}});
    let path = format!("{SCHEMAS}/service-accounts");
    cluster.merge(&path, precedence.clone()).await.expect(200);
    let kept = format!("{SCHEMAS}/system-nodes");
    let mut exempt = precedence;
    exempt["metadata"] = json!({"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}});
    cluster.merge(&kept, exempt).await.expect(200);
    drop(cluster);
    let cluster = Cluster::built(ApiServer::builder().data_dir(&scratch.0)).await;
    assert_eq!(cluster.names(SCHEMAS).await.len(), 11);
    assert_eq!(cluster.get(&path).await.expect(200)["spec"]["matchingPrecedence"], 9000);
    assert_eq!(cluster.get(&kept).await.expect(200)["spec"]["matchingPrecedence"], 4000);
}
