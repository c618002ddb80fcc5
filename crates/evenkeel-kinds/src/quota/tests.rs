//! What quotas count, and the errors of requests that do not fit.

#![expect(clippy::needless_pass_by_value, reason = "fixtures take values for brevity")]

use serde_json::json;

use super::*;

fn quota(hard: Value, used: Value, spec: Value) -> Quota {
    Quota::of(&json!({
        "metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard, "used": used},
    }))
}

fn create<'a>(object: &'a Value) -> Request<'a> {
    Request { operation: Operation::Create, subresource: "", object, old: None, now: 0 }
}

fn pod(requests: Value, limits: Value) -> Value {
    json!({"spec": {"containers": [
        {"name": "main", "resources": {"requests": requests, "limits": limits}},
    ]}})
}

fn text(list: &ResourceList) -> String {
    let each = list.iter().map(|(name, quantity)| format!("{name}={quantity}"));
    each.collect::<Vec<_>>().join(",")
}

fn usage(group: &str, plural: &str, object: &Value) -> String {
    text(&Evaluator::of(group, plural).unwrap().usage(object, 0))
}

#[test]
fn every_kind_of_usage_has_upstreams_name() {
    let object = pod(
        json!({"cpu": "1", "hugepages-2Mi": "2Mi", "example.com/gpu": "3", "memory": "1Gi"}),
        json!({"cpu": "2", "ephemeral-storage": "1Gi"}),
    );
    assert_eq!(
        usage("", "pods", &object),
        "count/pods=1,cpu=1,hugepages-2Mi=2Mi,limits.cpu=2,limits.ephemeral-storage=1Gi,\
         memory=1Gi,pods=1,requests.cpu=1,requests.example.com/gpu=3,requests.hugepages-2Mi=2Mi,\
         requests.memory=1Gi"
    );
    let object = json!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}});
    assert_eq!(
        usage("", "services", &object),
        "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2"
    );
    let object = json!({"spec": {
        "storageClassName": "gold", "resources": {"requests": {"storage": "1500m"}},
    }});
    assert_eq!(
        usage("", "persistentvolumeclaims", &object),
        "count/persistentvolumeclaims=1,\
         gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
         gold.storageclass.storage.k8s.io/requests.storage=2,persistentvolumeclaims=1,\
         requests.storage=2"
    );
    let object = json!({"spec": {"devices": {"requests": [
        {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
        {"firstAvailable": [
            {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
            {"deviceClassName": "fpga", "allocationMode": "All"},
        ]},
    ]}}});
    assert_eq!(
        usage("resource.k8s.io", "resourceclaims", &object),
        "count/resourceclaims.resource.k8s.io=1,fpga.deviceclass.resource.k8s.io/devices=32,\
         gpu.deviceclass.resource.k8s.io/devices=3"
    );
    assert_eq!(usage("", "secrets", &json!({})), "count/secrets=1,secrets=1");
    assert_eq!(usage("example.com", "widgets", &json!({})), "count/widgets.example.com=1");
    assert!(Evaluator::of("events.k8s.io", "events").is_none());
}

#[test]
fn ended_pods_count_as_objects_only() {
    let mut object = pod(json!({"cpu": "1"}), json!({}));
    let pods = Evaluator::of("", "pods").unwrap();
    object["status"]["phase"] = "Succeeded".into();
    assert_eq!(text(&pods.usage(&object, 0)), "count/pods=1");
    object["status"]["phase"] = "Running".into();
    object["metadata"] = json!({
        "deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30,
    });
    assert_eq!(text(&pods.usage(&object, 90)), "count/pods=1,cpu=1,pods=1,requests.cpu=1");
    assert_eq!(text(&pods.usage(&object, 91)), "count/pods=1");
}

#[test]
fn a_request_beyond_the_limit_is_refused_with_the_exceeded_resources() {
    let pods = Evaluator::of("", "pods").unwrap();
    let hard = json!({"pods": "2", "requests.cpu": "1", "requests.memory": "1Gi"});
    let used = json!({"pods": "2", "requests.cpu": "500m", "requests.memory": "0"});
    let quota = quota(hard, used, json!({}));
    let fits = pod(json!({"cpu": "600m", "memory": "1Gi"}), json!({}));
    assert_eq!(
        check(&pods, std::slice::from_ref(&quota), &create(&fits)).unwrap_err(),
        "exceeded quota: q, requested: pods=1,requests.cpu=600m, used: pods=2,requests.cpu=500m, \
         limited: pods=2,requests.cpu=1"
    );
    let unset = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}});
    assert_eq!(
        check(&pods, &[quota], &create(&unset)).unwrap_err(),
        "failed quota: q: must specify requests.cpu for: a,b; requests.memory for: a,b"
    );
}

#[test]
fn a_quota_without_status_is_not_enforced_and_one_without_usage_refuses() {
    let maps = Evaluator::of("", "configmaps").unwrap();
    let object = json!({});
    let unknown = quota(json!({"configmaps": "1"}), json!({}), json!({}));
    assert_eq!(
        check(&maps, &[unknown], &create(&object)).unwrap_err(),
        "status unknown for quota: q, resources: configmaps"
    );
    let fresh = quota(json!({}), json!({}), json!({"hard": {"configmaps": "0"}}));
    assert_eq!(check(&maps, &[fresh], &create(&object)).unwrap(), []);
}

#[test]
fn an_update_is_charged_by_its_increase_or_in_full_if_it_enters_the_scope() {
    let pods = Evaluator::of("", "pods").unwrap();
    let old = pod(json!({"cpu": "1"}), json!({}));
    let new = pod(json!({"cpu": "1500m"}), json!({}));
    let hard = json!({"requests.cpu": "10"});
    let used = json!({"requests.cpu": "1"});
    let all = quota(hard.clone(), used.clone(), json!({}));
    fn request<'a>(object: &'a Value, old: &'a Value) -> Request<'a> {
        let operation = Operation::Update;
        Request { operation, subresource: "resize", object, old: Some(old), now: 0 }
    }
    let raised = check(&pods, std::slice::from_ref(&all), &request(&new, &old)).unwrap();
    assert_eq!(text(&raised[0].1), "requests.cpu=1500m");
    let mut ending = new;
    ending["spec"]["activeDeadlineSeconds"] = 5.into();
    let scoped = quota(hard, used, json!({"scopes": ["Terminating"]}));
    let raised = check(&pods, &[scoped], &request(&ending, &old)).unwrap();
    assert_eq!(text(&raised[0].1), "requests.cpu=2500m");
    // A decrease is left to the controller.
    assert_eq!(check(&pods, &[all], &request(&old, &ending)).unwrap(), []);
}

#[test]
fn scopes_select_pods_by_deadline_quality_priority_and_affinity() {
    let pods = Evaluator::of("", "pods").unwrap();
    let mut object = pod(json!({}), json!({}));
    let in_scope = |object: &Value, spec: Value| pods.matches_scopes(&scopes(&spec), object);
    let named = |scope: &str| json!({"scopes": [scope]});
    assert!(in_scope(&object, named("BestEffort")));
    assert!(in_scope(&object, named("NotTerminating")));
    assert!(!in_scope(&object, named("PriorityClass")));
    assert!(!in_scope(&object, named("CrossNamespacePodAffinity")));
    let selected = |operator: &str, values: Value| {
        json!({"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": operator, "values": values},
        ]}})
    };
    assert!(in_scope(&object, selected("NotIn", json!(["high"]))));
    assert!(in_scope(&object, selected("DoesNotExist", json!([]))));
    object["spec"]["priorityClassName"] = "high".into();
    assert!(in_scope(&object, selected("In", json!(["low", "high"]))));
    assert!(!in_scope(&object, selected("NotIn", json!(["high"]))));
    assert!(in_scope(&object, named("PriorityClass")));
    object["spec"]["affinity"] = json!({"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"namespaceSelector": {}}},
        ],
    }});
    assert!(in_scope(&object, named("CrossNamespacePodAffinity")));
    // Services are in no scope.
    let services = Evaluator::of("", "services").unwrap();
    assert!(!services.matches_scopes(&scopes(&named("BestEffort")), &object));
}

#[test]
fn usage_is_totalled_over_the_objects_of_all_resources() {
    let hard = compute::list(Some(&json!({
        "pods": "9", "requests.cpu": "9", "count/widgets.example.com": "9", "unknown": "9",
    })));
    let running = pod(json!({"cpu": "700m"}), json!({}));
    let ended = json!({"status": {"phase": "Failed"}, "spec": running["spec"]});
    let widget = json!({});
    let resources = [
        (Evaluator::of("", "pods").unwrap(), vec![running.clone(), ended, running]),
        (Evaluator::of("example.com", "widgets").unwrap(), vec![widget.clone()]),
        (Evaluator::of("", "services").unwrap(), vec![widget]),
    ];
    let used = total_usage(&hard, &[], resources, 0);
    assert_eq!(text(&used), "count/widgets.example.com=1,pods=2,requests.cpu=1400m");
}
