//! The audit log: events of requests, and how much they contain.

use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::audit::{self, Level, LogFile, LogOptions, Policy, Receiver};
use evenkeel_apiserver::identity::Identity;
use http::Method;
use serde_json::{Value, json};

use crate::durability::Scratch;
use crate::harness::*;

async fn audited(policy: Policy) -> (Cluster, Receiver) {
    let (sink, events) = audit::channel(100);
    let builder = ApiServer::builder().seed(1).rbac().audit(policy, sink);
    (Cluster::built(builder).await, events)
}

fn policy(rules: &str) -> Policy {
    Policy::from_yaml(&format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}")).unwrap()
}

/// Returns the events so far, as JSON.
fn take(events: &mut Receiver) -> Vec<Value> {
    let events = std::iter::from_fn(|| events.try_next());
    events.map(|event| serde_json::to_value(event).unwrap()).collect()
}

fn stages(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["stage"].as_str().unwrap()).collect()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

#[tokio::test(start_paused = true)]
async fn metadata_names_user_object_and_decision() {
    let (cluster, mut events) = audited(Policy::all(Level::Metadata)).await;
    cluster.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let events = take(&mut events);
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    assert_eq!(
        events[1],
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "auditID": events[0]["auditID"], "stage": "ResponseComplete",
            "requestURI": CONFIG_MAPS, "verb": "create",
            "user": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "objectRef": {
                "resource": "configmaps", "namespace": "default", "name": "a",
                "apiVersion": "v1",
            },
            "responseStatus": {"metadata": {}, "code": 201},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
            "stageTimestamp": "2026-01-01T00:00:00.000000Z",
            "annotations": {
                "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "",
            },
        })
    );
    assert_eq!(events[0]["objectRef"]["name"], Value::Null, "not known before the body is read");
}

#[tokio::test(start_paused = true)]
async fn id_of_the_client_is_kept_and_others_are_generated() {
    let (cluster, mut events) = audited(Policy::all(Level::Metadata)).await;
    let given = cluster.send(Method::GET, "/version", &[("audit-id", "mine")], "").await;
    assert_eq!(given.header("audit-id"), "mine");
    let generated = cluster.get("/version").await;
    let ids: Vec<String> = take(&mut events).iter().map(|event| text(&event["auditID"])).collect();
    assert_eq!(ids[0..2], ["mine", "mine"]);
    assert_eq!(ids[2], generated.header("audit-id"));
}

#[tokio::test(start_paused = true)]
async fn denials_are_recorded_with_their_status() {
    let (cluster, mut events) = audited(Policy::all(Level::RequestResponse)).await;
    let bob = Identity::authenticated("bob", ["dev"]);
    let path = format!("{CONFIG_MAPS}/a");
    let response = cluster.send_as(bob, Method::GET, &path).await.expect(403);
    let event = take(&mut events).pop().unwrap();
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(event["responseStatus"]["reason"], "Forbidden");
    assert_eq!(event["responseStatus"]["message"], response["message"]);
    assert_eq!(event["responseObject"], response);
}

#[tokio::test(start_paused = true)]
async fn bodies_are_recorded_by_level_and_without_managed_fields() {
    let rules = "
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: Request, verbs: [patch]}
- {level: RequestResponse}
";
    let (cluster, mut events) = audited(policy(rules)).await;
    cluster.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    cluster.merge(&path, json!({"data": {"a": "c"}})).await.expect(200);
    let headers = [("content-type", "application/apply-patch+yaml")];
    let yaml = "apiVersion: v1\nkind: ConfigMap\ndata: {b: d}\n";
    let apply = format!("{path}?fieldManager=m");
    cluster.send(Method::PATCH, &apply, &headers, yaml).await.expect(200);
    let table = cluster.get_as(CONFIG_MAPS, TABLE).await.expect(200);
    cluster.delete_with(&path, json!({"gracePeriodSeconds": 0})).await.expect(200);

    let events = take(&mut events);
    assert_eq!(stages(&events), vec!["ResponseComplete"; 5]);
    let [created, merged, applied, listed, deleted] = events.as_slice() else { panic!() };
    assert_eq!(created["requestObject"]["data"], json!({"a": "b"}));
    assert_eq!(created["responseObject"]["data"], json!({"a": "b"}));
    assert_eq!(created["responseObject"]["metadata"]["managedFields"], Value::Null);
    assert_ne!(created["responseObject"]["metadata"]["uid"], Value::Null);
    assert_eq!(merged["requestObject"], json!({"data": {"a": "c"}}));
    assert_eq!(merged["responseObject"], Value::Null);
    assert_eq!(applied["requestObject"]["data"], json!({"b": "d"}));
    assert_eq!(listed["responseObject"]["kind"], "Table");
    assert_eq!(listed["responseObject"]["rows"][0]["cells"], table["rows"][0]["cells"]);
    let managed = &listed["responseObject"]["rows"][0]["object"]["metadata"]["managedFields"];
    assert_eq!(*managed, Value::Null);
    assert_eq!(deleted["requestObject"]["gracePeriodSeconds"], 0);
    assert_eq!(deleted["responseStatus"]["status"], "Success");
    assert_eq!(deleted["responseStatus"]["code"], 200);
}

#[tokio::test(start_paused = true)]
async fn watch_has_an_event_at_its_start_and_at_its_end() {
    let (cluster, mut events) = audited(Policy::all(Level::Metadata)).await;
    let watch = cluster.watch(CONFIG_MAPS).await;
    assert_eq!(stages(&take(&mut events)), ["RequestReceived", "ResponseStarted"]);
    drop(watch);
    let ended = take(&mut events);
    assert_eq!(stages(&ended), ["ResponseComplete"]);
    assert_eq!(ended[0]["responseStatus"]["code"], 200);
}

#[tokio::test(start_paused = true)]
async fn impersonation_is_recorded_with_both_users() {
    let (cluster, mut events) = audited(Policy::all(Level::Metadata)).await;
    let headers = [("impersonate-user", "bob"), ("impersonate-group", "dev")];
    cluster.send(Method::GET, CONFIG_MAPS, &headers, "").await.expect(403);
    let event = take(&mut events).pop().unwrap();
    assert_eq!(event["user"]["username"], "admin");
    assert_eq!(event["impersonatedUser"]["username"], "bob");
    assert_eq!(event["impersonatedUser"]["groups"], json!(["dev", "system:authenticated"]));
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
}

#[tokio::test(start_paused = true)]
async fn pod_security_annotates_its_decision() {
    let (cluster, mut events) =
        audited(policy("omitStages: [RequestReceived]\nrules: [{level: Metadata}]")).await;
    let labels = json!({
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/enforce": "baseline",
    });
    let namespace = json!({"metadata": {"name": "strict", "labels": labels}});
    cluster.post(NAMESPACES, namespace).await.expect(201);
    let pod = json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    cluster.post("/api/v1/namespaces/strict/pods", pod.clone()).await.expect(201);
    cluster.post(PODS, pod).await.expect(201);
    let events = take(&mut events);
    let annotation = |event: &Value, key: &str| {
        text(&event["annotations"][format!("pod-security.kubernetes.io/{key}")])
    };
    assert_eq!(annotation(&events[1], "enforce-policy"), "baseline:latest");
    let violations = annotation(&events[1], "audit-violations");
    assert!(violations.starts_with("would violate PodSecurity \"restricted:latest\""));
    assert_eq!(annotation(&events[2], "enforce-policy"), "privileged:latest");
}

#[tokio::test(start_paused = true)]
async fn full_channel_drops_events_and_serves_requests() {
    let (sink, mut events) = audit::channel(3);
    let builder = ApiServer::builder().seed(1).audit(Policy::all(Level::Metadata), sink);
    let cluster = Cluster::built(builder).await;
    for _ in 0..5 {
        cluster.get("/version").await.expect(200);
    }
    assert_eq!(take(&mut events).len(), 3);
    let metrics = cluster.get("/metrics").await.text();
    assert!(metrics.contains("apiserver_audit_event_total 4\n"), "{metrics}");
    assert!(metrics.contains("apiserver_audit_error_total 7\n"), "{metrics}");
}

#[tokio::test]
async fn file_has_a_line_for_each_event() {
    let scratch = Scratch::new();
    let path = scratch.0.join("audit.log");
    let log = LogFile::open(&path, LogOptions::default()).unwrap();
    let builder = ApiServer::builder().audit(policy("rules: [{level: Metadata}]"), log);
    let cluster = Cluster::built(builder).await;
    cluster.get("/version").await.expect(200);
    drop(cluster);
    let lines = std::fs::read_to_string(&path).unwrap();
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    assert!(lines.starts_with("{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":"));
}
