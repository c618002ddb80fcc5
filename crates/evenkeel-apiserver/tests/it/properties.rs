//! Properties that hold for any requests in any order.

use std::collections::{BTreeMap, BTreeSet};

use http::{Method, Uri};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Cluster, Patch, config_map, text, version};

/// Runs a case in its own runtime, with a paused clock.
fn block_on<T>(case: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(case)
}

fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

/// A request for one of a few ConfigMaps.
#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8),
    Update(u8, u8),
    Merge(u8, u8),
    Apply(u8, u8),
    Finalize(u8, bool),
    Delete(u8),
    DeleteOdd,
    /// Compacts all older revisions.
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6_u8;
    let value = 0..3_u8;
    prop_oneof![
        4 => (key.clone(), value.clone()).prop_map(|(k, v)| Step::Create(k, v)),
        3 => (key.clone(), value.clone()).prop_map(|(k, v)| Step::Update(k, v)),
        3 => (key.clone(), value.clone()).prop_map(|(k, v)| Step::Merge(k, v)),
        2 => (key.clone(), value).prop_map(|(k, v)| Step::Apply(k, v)),
        1 => (key.clone(), any::<bool>()).prop_map(|(k, on)| Step::Finalize(k, on)),
        3 => key.prop_map(Step::Delete),
        1 => Just(Step::DeleteOdd),
        1 => Just(Step::Compact),
    ]
}

/// Runs a step and returns the object it wrote, if any.
async fn take(cluster: &Cluster, step: &Step) -> Option<Value> {
    let path = |key: &u8| format!("{CONFIG_MAPS}/c{key}");
    let object = |key: &u8, value: &u8| {
        let parity = if value.is_multiple_of(2) { "even" } else { "odd" };
        let mut object = config_map(&format!("c{key}"), json!({"v": value.to_string()}));
        object["metadata"]["labels"] = json!({"par": parity});
        object
    };
    let response = match step {
        Step::Create(k, v) => cluster.post(CONFIG_MAPS, object(k, v)).await,
        Step::Update(k, v) => cluster.put(&path(k), object(k, v)).await,
        Step::Merge(k, v) => {
            let value = v.to_string();
            cluster.merge(&path(k), json!({"data": {"m": value}})).await
        }
        Step::Apply(k, v) => cluster.apply(&path(k), "me&force=true", object(k, v)).await,
        Step::Finalize(k, on) => {
            let finalizers = if *on { json!(["example.com/f"]) } else { json!(null) };
            cluster.merge(&path(k), json!({"metadata": {"finalizers": finalizers}})).await
        }
        Step::Delete(k) => cluster.delete(&path(k)).await,
        Step::DeleteOdd => cluster.delete(&format!("{CONFIG_MAPS}?labelSelector=par%3Dodd")).await,
        Step::Compact => {
            cluster.server.compact();
            return None;
        }
    };
    assert!(response.status < 500, "{step:?}: {}", response.text());
    let wrote = matches!(response.status, 200 | 201) && response.body["kind"] == "ConfigMap";
    wrote.then_some(response.body)
}

/// The objects of a collection by name.
type Model = BTreeMap<String, Value>;

fn model(list: &Value) -> Model {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let mut item = item.clone();
            item["kind"] = "ConfigMap".into();
            item["apiVersion"] = "v1".into();
            (text(&item["metadata"]["name"]), item)
        })
        .collect()
}

/// Applies the events of a watch to the model of its initial list.
fn replay(mut model: Model, watch: &mut crate::harness::Watch, from: u64) -> Model {
    let mut last = from;
    for event in watch.ready() {
        let object = event["object"].clone();
        assert!(version(&object) > last, "events in order: {event}");
        last = version(&object);
        let name = text(&object["metadata"]["name"]);
        match event["type"].as_str().unwrap() {
            "ADDED" => assert!(model.insert(name, object).is_none(), "{event}"),
            "MODIFIED" => assert!(model.insert(name, object).is_some(), "{event}"),
            "DELETED" => assert!(model.remove(&name).is_some(), "{event}"),
            other => panic!("{other}: {event}"),
        }
    }
    model
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn revisions_strictly_increase(steps in vec(step(), 1..40)) {
        block_on(async {
            let cluster = Cluster::new().await;
            let mut seen = BTreeSet::new();
            for step in &steps {
                let before = cluster.server.revision();
                let wrote = take(&cluster, step).await;
                let after = cluster.server.revision();
                assert!(after >= before);
                if let Some(object) = wrote {
                    let version = version(&object);
                    assert!(version <= after);
                    if version > before {
                        assert!(seen.insert(version), "{version} was given out twice");
                    }
                }
            }
        });
    }

    #[test]
    fn list_plus_watch_events_equals_the_current_list(
        before in vec(step(), 0..15),
        after in vec(step(), 1..30),
        selector in select(vec!["", "&labelSelector=par%3Dodd", "&fieldSelector=metadata.name!%3Dc1"]),
    ) {
        block_on(async {
            let cluster = Cluster::new().await;
            for step in &before {
                take(&cluster, step).await;
            }
            let path = format!("{CONFIG_MAPS}?limit=0{selector}");
            let list = cluster.get(&path).await.expect(200);
            let start = version(&list);
            let open = format!("{path}&resourceVersion={start}");
            let mut early = cluster.watch(&open).await;
            // Compaction is excluded, because it may end a watch.
            for step in after.iter().filter(|step| !matches!(step, Step::Compact)) {
                take(&cluster, step).await;
            }
            let mut late = cluster.watch(&open).await;
            let now = model(&cluster.get(&path).await.expect(200));
            for watch in [&mut early, &mut late] {
                assert_eq!(replay(model(&list), watch, start), now);
            }
        });
    }

    #[test]
    fn pages_concatenate_to_the_list_at_their_revision(
        steps in vec(step(), 1..30),
        limit in 1..4_usize,
    ) {
        block_on(async {
            let cluster = Cluster::new().await;
            let (before, during) = steps.split_at(steps.len() / 2);
            for step in before {
                take(&cluster, step).await;
            }
            let whole = cluster.get(CONFIG_MAPS).await.expect(200);
            let mut during = during.iter().filter(|step| !matches!(step, Step::Compact));
            let mut items = Vec::new();
            let mut query = format!("limit={limit}");
            loop {
                let page = cluster.get(&format!("{CONFIG_MAPS}?{query}")).await.expect(200);
                assert_eq!(version(&page), version(&whole));
                let found = page["items"].as_array().unwrap();
                assert!(found.len() <= limit);
                items.extend(found.iter().cloned());
                let Some(token) = page["metadata"]["continue"].as_str() else { break };
                assert_eq!(found.len(), limit, "only the last page may be short");
                query = format!("limit={limit}&continue={token}");
                // Writes between pages are not visible in them.
                for step in during.by_ref().take(2) {
                    take(&cluster, step).await;
                }
            }
            assert_eq!(Value::Array(items), whole["items"]);
            let exact = format!(
                "{CONFIG_MAPS}?resourceVersion={}&resourceVersionMatch=Exact", version(&whole)
            );
            assert_eq!(cluster.get(&exact).await.expect(200), whole);
        });
    }
}

// === arbitrary requests ===

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(vec![
            "api", "apis", "v1", "v2", "apps", "example.com", "namespaces", "default", "watch",
            "configmaps", "pods", "deployments", "widgets", "services", "events", "nodes",
            "customresourcedefinitions", "apiextensions.k8s.io", "status", "scale", "binding",
            "eviction", "log", "exec", "proxy", "finalize", "a", "healthz", "openapi", "v3",
            "selfsubjectaccessreviews", "authorization.k8s.io", "", ".", "..", "%00", "%2F", "%",
        ]).prop_map(str::to_owned),
        1 => "[a-zA-Z0-9._~!$&'()*+,;=:@%-]{0,12}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    let known = select(vec![
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/a",
        "/api/v1/namespaces/default/pods/a",
        "/api/v1/namespaces/default/pods/a/status",
        "/api/v1/namespaces/default/pods/a/binding",
        "/api/v1/namespaces/default/services",
        "/api/v1/namespaces/a/finalize",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/deployments/a/scale",
        "/apis/example.com/v1/namespaces/default/widgets",
        "/apis/example.com/v1/namespaces/default/widgets/a",
        "/apis/example.com/v1/namespaces/default/widgets/a/status",
        "/apis/example.com/v1/namespaces/default/widgets/a/scale",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ]);
    prop_oneof![
        known.prop_map(str::to_owned),
        vec(segment(), 0..8).prop_map(|segments| format!("/{}", segments.join("/"))),
    ]
}

fn query() -> impl Strategy<Value = String> {
    let name = select(vec![
        "watch",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "labelSelector",
        "fieldSelector",
        "timeoutSeconds",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "pretty",
        "includeObject",
        "propagationPolicy",
        "gracePeriodSeconds",
        "orphanDependents",
        "hash",
        "verbose",
    ]);
    let value = prop_oneof![
        select(vec![
            "",
            "0",
            "1",
            "-1",
            "true",
            "false",
            "All",
            "Exact",
            "NotOlderThan",
            "Strict",
            "Warn",
            "99999999999999999999999",
            "a%3Db",
            "a+in+(b",
            "metadata.name%3Da",
            "spec.color%3Dx",
            "Foreground",
            "Orphan",
            "Object",
            "%00",
            "e30",
            "9223372036854775807",
            "18446744073709551615",
        ])
        .prop_map(str::to_owned),
        "[a-zA-Z0-9._~!$'()*+,;:@%/?-]{0,12}",
    ];
    vec((name, value), 0..4).prop_map(|pairs| {
        let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
        pairs.join("&")
    })
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z/.:$=0-9-]{0,8}".prop_map(Value::from),
        select(vec!["v1", "ConfigMap", "a", "example.com/v1", "Widget", "red", "$patch", "delete"])
            .prop_map(Value::from),
    ];
    let key = prop_oneof![
        6 => select(vec![
            "apiVersion", "kind", "metadata", "name", "namespace", "labels", "annotations",
            "finalizers", "ownerReferences", "managedFields", "resourceVersion", "uid",
            "generateName", "deletionTimestamp", "creationTimestamp", "spec", "status", "data",
            "containers", "template", "replicas", "color", "tags", "selector", "ports", "versions",
            "names", "schema", "openAPIV3Schema", "properties", "op", "path", "value", "from",
            "$patch", "$retainKeys", "$setElementOrder/containers", "target", "preconditions",
        ]).prop_map(str::to_owned),
        1 => "[a-z/.$]{0,6}",
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((key.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Bodies: bytes, JSON, and almost valid objects.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let almost = (
        select(vec![
            ("v1", "ConfigMap"),
            ("v1", "Pod"),
            ("v1", "Service"),
            ("apps/v1", "Deployment"),
            ("example.com/v1", "Widget"),
            ("autoscaling/v1", "Scale"),
            ("v1", "Binding"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("v1", "DeleteOptions"),
        ]),
        json_value(),
        json_value(),
        json_value(),
    );
    let almost = almost.prop_map(|((api_version, kind), metadata, spec, rest)| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "spec": spec});
        object["metadata"] = if metadata.is_object() { metadata } else { json!({"name": "a"}) };
        if !object["metadata"]["name"].is_string() {
            object["metadata"]["name"] = "a".into();
        }
        if let Value::Object(rest) = rest {
            for (key, value) in rest {
                object.as_object_mut().unwrap().entry(key).or_insert(value);
            }
        }
        object
    });
    prop_oneof![
        1 => vec(any::<u8>(), 0..64),
        2 => json_value().prop_map(|value| value.to_string().into_bytes()),
        4 => almost.prop_map(|value| value.to_string().into_bytes()),
        1 => vec(any::<u8>(), 0..64).prop_map(|bytes| [b"k8s\0".to_vec(), bytes].concat()),
    ]
}

fn header() -> impl Strategy<Value = (&'static str, String)> {
    let content_type = select(vec![
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        Patch::Json.media_type(),
        Patch::Merge.media_type(),
        Patch::Strategic.media_type(),
        "application/apply-patch+yaml",
        "text/plain",
        "application/json; charset=utf-8",
        ";",
    ]);
    let accept = select(vec![
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "*/*",
        crate::harness::TABLE,
        crate::harness::METADATA,
        crate::harness::METADATA_LIST,
        "application/json;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2",
        "x;q=y",
        ",",
    ]);
    prop_oneof![
        3 => content_type.prop_map(|value| ("content-type", value.to_owned())),
        2 => accept.prop_map(|value| ("accept", value.to_owned())),
        1 => Just(("accept-encoding", "gzip".to_owned())),
        1 => "[ -~]{0,20}".prop_map(|value| ("user-agent", value)),
    ]
}

proptest! {
    #![proptest_config(cases(256))]

    /// A 5xx is allowed only where upstream returns one: without a reason (an error passed
    /// through), for a timeout, or for unimplemented features. `InternalError` is always a bug.
    #[test]
    fn no_request_causes_an_internal_error(
        requests in vec(
            (
                select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "FOO"]),
                path(),
                query(),
                vec(header(), 0..3),
                body(),
            ),
            1..12,
        ),
    ) {
        block_on(async {
            let cluster = Cluster::with_widgets().await;
            for (method, path, query, headers, body) in requests {
                // Skip requests that are not valid HTTP.
                let uri = if query.is_empty() { path } else { format!("{path}?{query}") };
                if uri.parse::<Uri>().is_err() {
                    continue;
                }
                let headers: Vec<(&str, &str)> =
                    headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let method = Method::from_bytes(method.as_bytes()).unwrap();
                let request = crate::harness::request(method.clone(), &uri, &headers, body.clone());
                let mut service = cluster.server.service();
                let response = tower_service::Service::call(&mut service, request).await.unwrap();
                let status = response.status().as_u16();
                if status < 500 {
                    continue;
                }
                let bytes = http_body_util::BodyExt::collect(response.into_body()).await;
                let bytes = bytes.unwrap().to_bytes();
                let status_text = String::from_utf8_lossy(&bytes);
                let body = String::from_utf8_lossy(&body);
                assert!(
                    !status_text.contains("InternalError"),
                    "{method} {uri} {headers:?} {body}: {status} {status_text}"
                );
            }
        });
    }
}
