//! Lists: order, resourceVersion and pagination.

use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{
    CONFIG_MAPS, Cluster, NAMESPACES, config_map, names, namespace, text, version,
};

/// Starts a cluster with the ConfigMaps `a` to `e`.
async fn five() -> Cluster {
    let cluster = Cluster::new().await;
    for name in ["c", "a", "e", "b", "d"] {
        cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(201);
    }
    cluster
}

#[tokio::test(start_paused = true)]
async fn list_is_sorted_by_name_at_the_latest_revision() {
    let cluster = five().await;
    let list = cluster.get(CONFIG_MAPS).await.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert_eq!(names(&list), ["a", "b", "c", "d", "e"]);
    assert_eq!(version(&list), cluster.server.revision());
    assert_eq!(list["items"][0].get("kind"), None, "items of built-in kinds have no kind");
}

#[tokio::test(start_paused = true)]
async fn empty_list_has_items_and_resource_version() {
    let cluster = Cluster::new().await;
    let list = cluster.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(list["items"], json!([]));
    assert_eq!(version(&list), cluster.server.revision());
}

#[tokio::test(start_paused = true)]
async fn list_across_namespaces_is_sorted_by_namespace() {
    let cluster = Cluster::new().await;
    for (namespace_name, name) in [("b", "x"), ("a", "z"), ("a", "y")] {
        cluster.post(NAMESPACES, namespace(namespace_name)).await;
        let path = format!("{NAMESPACES}/{namespace_name}/configmaps");
        cluster.post(&path, config_map(name, json!({}))).await.expect(201);
    }
    let list = cluster.get("/api/v1/configmaps").await.expect(200);
    // The last one is the server's own, in kube-system.
    assert_eq!(names(&list)[..3], ["y", "z", "x"]);
    assert_eq!(names(&list).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn pages_are_consistent_at_one_resource_version() {
    let cluster = five().await;
    let first = cluster.get(&format!("{CONFIG_MAPS}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);

    // Writes between pages are not visible.
    cluster.delete(&format!("{CONFIG_MAPS}/c")).await.expect(200);
    cluster.post(CONFIG_MAPS, config_map("bb", json!({}))).await.expect(201);

    let token = text(&first["metadata"]["continue"]);
    let path = format!("{CONFIG_MAPS}?limit=2&continue={token}");
    let second = cluster.get(&path).await.expect(200);
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    assert_eq!(version(&second), version(&first));

    let token = text(&second["metadata"]["continue"]);
    let last = cluster.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(200);
    assert_eq!(names(&last), ["e"]);
    assert_eq!(last["metadata"].get("continue"), None);
    assert_eq!(last["metadata"].get("remainingItemCount"), None);
}

#[tokio::test(start_paused = true)]
async fn pages_cross_namespaces() {
    let cluster = five().await;
    cluster.post(NAMESPACES, namespace("zoo")).await.expect(201);
    cluster
        .post(&format!("{NAMESPACES}/zoo/configmaps"), config_map("a", json!({})))
        .await
        .expect(201);
    let mut seen = Vec::new();
    let mut path = "/api/v1/configmaps?limit=1".to_owned();
    loop {
        let page = cluster.get(&path).await.expect(200);
        let metadata = &page["items"][0]["metadata"];
        seen.push(format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"])));
        let Some(token) = page["metadata"]["continue"].as_str() else { break };
        path = format!("/api/v1/configmaps?limit=1&continue={token}");
    }
    seen.retain(|name| !name.starts_with("kube-system/"));
    assert_eq!(seen, ["default/a", "default/b", "default/c", "default/d", "default/e", "zoo/a"]);
}

#[tokio::test(start_paused = true)]
async fn page_with_selector_has_no_remaining_item_count() {
    let cluster = five().await;
    let path = format!("{CONFIG_MAPS}?limit=2&fieldSelector=metadata.name!%3Da");
    let page = cluster.get(&path).await.expect(200);
    assert_eq!(names(&page), ["b", "c"]);
    assert_eq!(page["metadata"].get("remainingItemCount"), None);
    assert!(page["metadata"]["continue"].is_string());
}

#[tokio::test(start_paused = true)]
async fn expired_continue_token_returns_an_inconsistent_one() {
    let cluster = five().await;
    let first = cluster.get(&format!("{CONFIG_MAPS}?limit=2")).await.expect(200);
    let token = text(&first["metadata"]["continue"]);
    cluster.delete(&format!("{CONFIG_MAPS}/d")).await.expect(200);
    cluster.server.compact();

    let response = cluster.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await;
    let status = response.expect_error(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can \
         start a new list without the continue parameter, or use the continue token in this \
         response to retrieve the remainder of the results. Continuing with the provided token \
         results in an inconsistent list - objects that were created, modified, or deleted \
         between the time the first chunk was returned and now may show up in the list.",
    );
    let token = text(&status["metadata"]["continue"]);
    let rest = cluster.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&rest), ["c", "e"]);
}

#[tokio::test(start_paused = true)]
async fn exact_resource_version_lists_an_older_revision() {
    let cluster = five().await;
    let then = version(&cluster.get(CONFIG_MAPS).await.expect(200));
    cluster.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    cluster.merge(&format!("{CONFIG_MAPS}/b"), json!({"data": {"k": "v"}})).await.expect(200);

    let exact = format!("{CONFIG_MAPS}?resourceVersion={then}&resourceVersionMatch=Exact");
    let past = cluster.get(&exact).await.expect(200);
    assert_eq!(names(&past), ["a", "b", "c", "d", "e"]);
    assert_eq!(past["items"][1].get("data"), None);
    assert_eq!(version(&past), then);

    let newer = format!("{CONFIG_MAPS}?resourceVersion={then}&resourceVersionMatch=NotOlderThan");
    for path in [newer, format!("{CONFIG_MAPS}?resourceVersion={then}")] {
        let list = cluster.get(&path).await.expect(200);
        assert_eq!(names(&list), ["b", "c", "d", "e"], "{path}");
        assert!(version(&list) >= then);
    }

    cluster.server.compact();
    cluster.get(&exact).await.expect_error(
        410,
        "Expired",
        "The resourceVersion for the provided list is too old.",
    );
}

#[tokio::test(start_paused = true)]
async fn future_resource_version_is_waited_for_three_seconds() {
    let cluster = five().await;
    let current = cluster.server.revision();
    let begun = Instant::now();
    let response = cluster.get(&format!("{CONFIG_MAPS}?resourceVersion=1000")).await;
    assert_eq!(response.header("retry-after"), "1");
    let status = response.expect_error(
        504,
        "Timeout",
        &format!("Timeout: Too large resource version: 1000, current: {current}"),
    );
    assert_eq!(
        status["details"],
        json!({
            "retryAfterSeconds": 1,
            "causes": [{
                "reason": "ResourceVersionTooLarge", "message": "Too large resource version",
            }],
        })
    );
    let waited = begun.elapsed();
    assert!((3000..3200).contains(&waited.as_millis()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn list_returns_once_a_future_resource_version_is_reached() {
    let cluster = five().await;
    let next = cluster.server.revision() + 1;
    let path = format!("{CONFIG_MAPS}?resourceVersion={next}");
    let begun = Instant::now();
    let (list, _) = tokio::join!(cluster.get(&path), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.post(CONFIG_MAPS, config_map("f", json!({}))).await.expect(201)
    });
    assert_eq!(names(&list.expect(200)).last().unwrap(), "f");
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn list_resource_version_is_at_least_that_of_a_deletion() {
    let cluster = five().await;
    let before = version(&cluster.get(CONFIG_MAPS).await.expect(200));
    cluster.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    assert_eq!(version(&cluster.get(CONFIG_MAPS).await.expect(200)), before + 1);
}

#[tokio::test(start_paused = true)]
async fn continue_token_expires_within_two_compaction_intervals() {
    let cluster = Cluster::new().await;
    for name in ["a", "b", "c"] {
        cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(201);
    }
    let first = cluster.get(&format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    let version = first["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let next = format!("{CONFIG_MAPS}?limit=1&continue={token}");
    let exact = format!("{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");

    tokio::time::advance(Duration::from_secs(4 * 60)).await;
    cluster.get(&next).await.expect(200);
    // The first compaction only records the revision that the second one compacts to.
    tokio::time::advance(Duration::from_secs(4 * 60)).await;
    cluster.get(&next).await.expect(200);
    cluster.get(&exact).await.expect(200);
    tokio::time::advance(Duration::from_secs(4 * 60)).await;
    let expired = cluster.get(&next).await.expect(410);
    assert_eq!(expired["reason"], "Expired");
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let rest = cluster.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(200);
    assert_eq!(names(&rest), ["b", "c"]);
    cluster.get(&exact).await.expect_error(
        410,
        "Expired",
        "The resourceVersion for the provided list is too old.",
    );
    // A watch can still start there: the events are kept.
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?resourceVersion={version}")).await;
    cluster.post(CONFIG_MAPS, config_map("d", json!({}))).await.expect(201);
    assert_eq!(watch.next().await["object"]["metadata"]["name"], "d");
}

#[tokio::test(start_paused = true)]
async fn compaction_interval_of_zero_disables_compaction() {
    let builder = ApiServer::builder().seed(1).compaction_interval(Duration::ZERO);
    let cluster = Cluster::built(builder).await;
    let version = cluster.server.revision();
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    tokio::time::advance(Duration::from_secs(3600)).await;
    let exact = format!("{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(names(&cluster.get(&exact).await.expect(200)), [""; 0]);
}
