//! Watches: start revision, events, bookmarks and end.

use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Window};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::{
    CONFIG_MAPS, Cluster, METADATA, NAMESPACES, PODS, TABLE, Watch, config_map, event, labelled,
    namespace, pod, text, version,
};

const A: &str = "/api/v1/namespaces/default/configmaps/a";
const STREAMING: &str =
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// Watches ConfigMaps from the current revision.
async fn from_now(cluster: &Cluster, query: &str) -> Watch {
    let revision = cluster.server.revision();
    cluster.watch(&format!("{CONFIG_MAPS}?resourceVersion={revision}{query}")).await
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_resource_version_sends_every_later_change_in_order() {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("old", json!({}))).await.expect(201);
    let mut watch = from_now(&cluster, "").await;
    assert!(watch.is_silent());

    let created = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    let patched = cluster.merge(A, json!({"data": {"k": "v"}})).await.expect(200);
    cluster.merge(A, json!({"data": {"k": "v"}})).await.expect(200);
    cluster.delete(A).await.expect(200);

    assert_eq!(watch.next().await, json!({"type": "ADDED", "object": created}));
    assert_eq!(watch.next().await, json!({"type": "MODIFIED", "object": patched}));
    let mut last = watch.next().await;
    assert_eq!(last["type"], "DELETED");
    assert_eq!(version(&last["object"]), version(&patched) + 1, "the revision of the deletion");
    last["object"]["metadata"]["resourceVersion"] = patched["metadata"]["resourceVersion"].clone();
    assert_eq!(last["object"], patched);
    assert!(watch.is_silent());
}

#[tokio::test(start_paused = true)]
async fn watch_without_resource_version_starts_with_existing_objects() {
    let cluster = Cluster::new().await;
    for name in ["b", "a"] {
        cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(201);
    }
    for query in ["", "?resourceVersion=0", "?resourceVersion="] {
        let mut watch = cluster.watch(&format!("{CONFIG_MAPS}{query}")).await;
        assert_eq!(watch.take(2).await, [event("ADDED", "a"), event("ADDED", "b")], "{query}");
        assert!(watch.is_silent(), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_from_an_older_resource_version_sends_missed_events() {
    let cluster = Cluster::new().await;
    let start = cluster.server.revision();
    for name in ["a", "b"] {
        cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(201);
    }
    cluster.delete(A).await.expect(200);
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}")).await;
    assert_eq!(
        watch.take(3).await,
        [event("ADDED", "a"), event("ADDED", "b"), event("DELETED", "a")]
    );
}

#[tokio::test(start_paused = true)]
async fn streaming_list_ends_with_a_bookmark_and_continues_as_watch() {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    // A write of another resource: the bookmark has the latest revision of the store.
    cluster.post(PODS, pod("p")).await.expect(201);
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?{STREAMING}")).await;
    assert_eq!(watch.take(1).await, [event("ADDED", "a")]);
    let revision = cluster.server.revision();
    assert_eq!(
        watch.next().await,
        json!({"type": "BOOKMARK", "object": {
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {
                "resourceVersion": revision.to_string(),
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        }})
    );
    assert!(watch.is_silent());
    cluster.post(CONFIG_MAPS, config_map("b", json!({}))).await.expect(201);
    assert_eq!(watch.take(1).await, [event("ADDED", "b")]);
}

#[tokio::test(start_paused = true)]
async fn bookmark_of_a_built_in_kind_has_zero_valued_fields() {
    let cluster = Cluster::new().await;
    let mut watch = cluster.watch(&format!("{PODS}?{STREAMING}")).await;
    let object = watch.next().await["object"].clone();
    assert_eq!(object["spec"], json!({"containers": null}));
    assert_eq!(object["status"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn watch_from_zero_with_bookmarks_is_a_streaming_list() {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    let path = format!("{CONFIG_MAPS}?resourceVersion=0&allowWatchBookmarks=true");
    let mut watch = cluster.watch(&path).await;
    assert_eq!(watch.take(1).await, [event("ADDED", "a")]);
    let mark = watch.next().await;
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(
        mark["object"]["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
}

#[tokio::test(start_paused = true)]
async fn send_initial_events_false_sends_none() {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    let path = format!("{CONFIG_MAPS}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
    let mut watch = cluster.watch(&path).await;
    assert!(watch.is_silent());
    cluster.post(CONFIG_MAPS, config_map("b", json!({}))).await.expect(201);
    assert_eq!(watch.take(1).await, [event("ADDED", "b")]);
}

#[tokio::test(start_paused = true)]
async fn invalid_watch_options_are_rejected() {
    let cluster = Cluster::new().await;
    let requires = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to \
                    NotOlderThan";
    let cases = [
        ("sendInitialEvents=true", format!("resourceVersionMatch: {requires}")),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            format!(
                "[resourceVersionMatch: {requires}, resourceVersionMatch: Unsupported value: \
                 \"Exact\": supported values: \"NotOlderThan\"]"
            ),
        ),
        (
            "resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
             sendInitialEvents is provided"
                .to_owned(),
        ),
        (
            "continue=abc",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is \
             provided"
                .to_owned(),
        ),
    ];
    for (query, error) in cases {
        let path = format!("{CONFIG_MAPS}?watch=true&{query}");
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {error}");
        cluster.get(&path).await.expect_error(422, "Invalid", &message);
    }
    cluster.get(&format!("{CONFIG_MAPS}?watch=true&resourceVersion=x")).await.expect_error(
        500,
        "",
        "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
    );
}

#[tokio::test(start_paused = true)]
async fn watch_with_selector_sends_added_and_deleted_on_match_changes() {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, labelled("a", json!({"in": "yes"}))).await.expect(201);
    let mut watch = from_now(&cluster, "&labelSelector=in%3Dyes").await;
    let label = |value: &str, data: &str| json!({"metadata": {"labels": {"in": value}}, "data": {"k": data}});
    cluster.post(CONFIG_MAPS, labelled("other", json!({}))).await.expect(201);
    let left = cluster.merge(A, label("no", "1")).await.expect(200);
    cluster.merge(A, label("no", "2")).await.expect(200);
    cluster.merge(A, label("yes", "3")).await.expect(200);
    cluster.merge(A, label("yes", "4")).await.expect(200);
    cluster.delete(A).await.expect(200);

    let deleted = watch.next().await;
    assert_eq!(deleted["type"], "DELETED");
    assert_eq!(
        deleted["object"]["metadata"]["labels"],
        json!({"in": "yes"}),
        "shown as it last matched"
    );
    assert_eq!(deleted["object"].get("data"), None);
    assert_eq!(
        version(&deleted["object"]),
        version(&left),
        "at the revision at which it stopped matching"
    );
    for (kind, data) in [("ADDED", "3"), ("MODIFIED", "4"), ("DELETED", "4")] {
        let event = watch.next().await;
        assert_eq!((&event["type"], &event["object"]["data"]["k"]), (&json!(kind), &json!(data)));
    }
    assert!(watch.is_silent());
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_namespace_or_name_sends_no_other_objects() {
    let cluster = Cluster::new().await;
    cluster.post(NAMESPACES, namespace("other")).await.expect(201);
    let mut here = from_now(&cluster, "").await;
    let mut named = from_now(&cluster, "&fieldSelector=metadata.name%3Db").await;
    let mut legacy =
        cluster.watch("/api/v1/watch/namespaces/default/configmaps/b?resourceVersion=0").await;
    let revision = cluster.server.revision();
    let mut all = cluster.watch(&format!("/api/v1/configmaps?resourceVersion={revision}")).await;

    let elsewhere = format!("{NAMESPACES}/other/configmaps");
    cluster.post(&elsewhere, config_map("x", json!({}))).await.expect(201);
    for name in ["a", "b"] {
        cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(201);
    }
    assert_eq!(here.take(2).await, [event("ADDED", "a"), event("ADDED", "b")]);
    assert_eq!(named.take(1).await, [event("ADDED", "b")]);
    assert_eq!(legacy.take(1).await, [event("ADDED", "b")]);
    assert_eq!(all.take(3).await, [event("ADDED", "x"), event("ADDED", "a"), event("ADDED", "b")]);
    for watch in [&mut here, &mut named, &mut legacy, &mut all] {
        assert!(watch.is_silent());
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_every_minute_if_allowed() {
    let cluster = Cluster::new().await;
    let mut with = from_now(&cluster, "&allowWatchBookmarks=true").await;
    let mut without = from_now(&cluster, "").await;
    for minute in 1..=3 {
        // Writes of other resources advance the bookmark too.
        cluster.post(PODS, pod(&format!("p{minute}"))).await.expect(201);
        let begun = Instant::now();
        let mark = with.next_within(Duration::from_secs(75)).await;
        assert!(begun.elapsed() >= Duration::from_secs(45), "{:?}", begun.elapsed());
        assert_eq!(
            mark,
            json!({"type": "BOOKMARK", "object": {
                "kind": "ConfigMap", "apiVersion": "v1",
                "metadata": {"resourceVersion": cluster.server.revision().to_string()},
            }})
        );
        assert!(without.is_silent());
    }
}

#[tokio::test(start_paused = true)]
async fn watch_ends_after_timeout_seconds() {
    let cluster = Cluster::new().await;
    let begun = Instant::now();
    let mut watch = from_now(&cluster, "&timeoutSeconds=7").await;
    assert_eq!(watch.rest(Duration::from_secs(8)).await, Vec::<Value>::new());
    assert_eq!(begun.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn huge_timeout_seconds_is_accepted() {
    let cluster = Cluster::new().await;
    let mut watch = from_now(&cluster, "&timeoutSeconds=9223372036854775807").await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    assert_eq!(watch.take(1).await, [event("ADDED", "a")]);
}

#[tokio::test(start_paused = true)]
async fn default_watch_timeout_is_between_30_and_60_minutes() {
    let cluster = Cluster::new().await;
    let mut ends = Vec::new();
    for _ in 0..4 {
        let begun = Instant::now();
        from_now(&cluster, "").await.rest(Duration::from_secs(3601)).await;
        ends.push(begun.elapsed().as_secs());
    }
    assert!(ends.iter().all(|seconds| (1800..=3600).contains(seconds)), "{ends:?}");
    assert!(ends.iter().any(|seconds| seconds != &ends[0]), "the timeouts should differ: {ends:?}");
}

#[tokio::test(start_paused = true)]
async fn compacted_resource_version_is_a_410_event_in_the_stream() {
    let cluster = Cluster::new().await;
    let old = cluster.server.revision();
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    cluster.server.compact();
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?resourceVersion={old}")).await;
    let events = watch.rest(Duration::from_secs(1)).await;
    let [error] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(error["type"], "ERROR");
    let status = &error["object"];
    assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(410)));
    assert_eq!(status["reason"], "Expired");
    let message = text(&status["message"]);
    assert!(message.starts_with(&format!("too old resource version: {old} (")), "{message}");
}

#[tokio::test(start_paused = true)]
async fn slow_watcher_gets_a_410_event_and_the_watch_ends() {
    let window = Window { events: 8, bytes: 1 << 20 };
    let cluster = Cluster::built(ApiServer::builder().seed(1).window(window)).await;
    let mut slow = from_now(&cluster, "").await;
    let mut quick = from_now(&cluster, "").await;
    for n in 0..100 {
        let object = config_map(&format!("m{n}"), json!({}));
        cluster.post(CONFIG_MAPS, object).await.expect(201);
        assert_eq!(quick.take(1).await, [event("ADDED", &format!("m{n}"))]);
    }
    let events = slow.rest(Duration::from_secs(1)).await;
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(events.len() < 100, "{} events", events.len());
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_future_resource_version_waits_for_it() {
    let cluster = Cluster::new().await;
    let future = cluster.server.revision() + 2;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?resourceVersion={future}")).await;
    for name in ["a", "b", "c"] {
        cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(201);
    }
    assert_eq!(watch.take(1).await, [event("ADDED", "c")]);
}

#[tokio::test(start_paused = true)]
async fn streaming_list_at_a_future_resource_version_fails_in_the_stream() {
    let cluster = Cluster::new().await;
    let current = cluster.server.revision();
    let begun = Instant::now();
    let path = format!("{CONFIG_MAPS}?{STREAMING}&resourceVersion=1000");
    let mut watch = cluster.watch(&path).await;
    let events = watch.rest(Duration::from_secs(4)).await;
    let [error] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(error["type"], "ERROR");
    assert_eq!(error["object"]["code"], 504);
    assert_eq!(
        error["object"]["message"],
        format!("Timeout: Too large resource version: 1000, current: {current}")
    );
    assert_eq!(begun.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn table_watch_sends_column_definitions_once() {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.expect(201);
    let mut watch = cluster.watch_as(CONFIG_MAPS, TABLE).await;
    let first = watch.next().await["object"].clone();
    assert_eq!(first["kind"], "Table");
    assert_eq!(first["columnDefinitions"].as_array().unwrap().len(), 3);
    assert_eq!(first["rows"][0]["cells"], json!(["a", 1, "0s"]));
    cluster.post(CONFIG_MAPS, config_map("b", json!({}))).await.expect(201);
    let second = watch.next().await["object"].clone();
    assert_eq!(second["columnDefinitions"], Value::Null);
    assert_eq!(second["rows"][0]["cells"][0], "b");
    assert_eq!(second["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn watch_can_return_partial_object_metadata() {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.expect(201);
    let mut watch = cluster.watch_as(&format!("{CONFIG_MAPS}?{STREAMING}"), METADATA).await;
    let object = watch.next().await["object"].clone();
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(object.get("data"), None);
    let mark = watch.next().await["object"].clone();
    assert_eq!(mark["kind"], "PartialObjectMetadata");
    assert_eq!(mark["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
}

#[tokio::test(start_paused = true)]
async fn watches_end_with_the_server() {
    let cluster = Cluster::new().await;
    let mut stopped = from_now(&cluster, "").await;
    cluster.server.stop();
    assert_eq!(stopped.rest(Duration::from_secs(1)).await.len(), 0);

    let cluster = Cluster::new().await;
    let mut dropped = from_now(&cluster, "").await;
    drop(cluster);
    assert_eq!(dropped.rest(Duration::from_secs(1)).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_do_not_confirm_a_future_resource_version() {
    let cluster = Cluster::new().await;
    let ahead = cluster.server.revision() + 2;
    let query = format!("allowWatchBookmarks=true&resourceVersion={ahead}");
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    for name in ["a", "b"] {
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(watch.is_silent());
        cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(201);
    }
    cluster.post(CONFIG_MAPS, config_map("c", json!({}))).await.expect(201);
    // Events up to the requested version are skipped; the first event after it is sent.
    assert_eq!(watch.next().await["object"]["metadata"]["name"], "c");
}
