//! Create, get and update: system metadata, defaults, optimistic concurrency.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{
    CONFIG_MAPS, Cluster, DEPLOYMENTS, NAMESPACES, PODS, config_map, deployment, pod, text, version,
};

const A: &str = "/api/v1/namespaces/default/configmaps/a";

#[tokio::test(start_paused = true)]
async fn create_sets_system_metadata() {
    let cluster = Cluster::new().await;
    let before = cluster.server.revision();
    let created = cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.expect(201);
    let metadata = &created["metadata"];
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(text(&metadata["uid"]).len(), 36);
    assert_eq!(version(&created), before + 1);
    assert_eq!(metadata.get("generation"), None, "a ConfigMap has no generation");
    assert_eq!(metadata.get("selfLink"), None);
    assert_eq!(cluster.get(A).await.expect(200), created);
}

#[tokio::test(start_paused = true)]
async fn create_ignores_system_metadata_of_the_client() {
    let cluster = Cluster::new().await;
    let mut given = config_map("a", json!({}));
    given["metadata"]["uid"] = "mine".into();
    given["metadata"]["creationTimestamp"] = "1999-01-01T00:00:00Z".into();
    given["metadata"]["deletionTimestamp"] = "1999-01-01T00:00:00Z".into();
    given["metadata"]["generation"] = 7.into();
    let metadata = cluster.post(CONFIG_MAPS, given).await.expect(201)["metadata"].clone();
    assert_ne!(metadata["uid"], "mine");
    assert_eq!(metadata["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(metadata.get("deletionTimestamp"), None);
}

#[tokio::test(start_paused = true)]
async fn body_without_kind_gets_the_kind_of_the_path() {
    let cluster = Cluster::new().await;
    let created = cluster.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await.expect(201);
    assert_eq!((&created["kind"], &created["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
}

#[tokio::test(start_paused = true)]
async fn generate_name_generates_a_name() {
    let cluster = Cluster::new().await;
    let body = json!({"metadata": {"generateName": "job-"}});
    let first = cluster.post(CONFIG_MAPS, body.clone()).await.expect(201);
    let second = cluster.post(CONFIG_MAPS, body).await.expect(201);
    for object in [&first, &second] {
        let name = text(&object["metadata"]["name"]);
        let suffix = name.strip_prefix("job-").unwrap();
        assert_eq!(suffix.len(), 5, "{name}");
        assert!(suffix.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b)), "{name}");
        assert_eq!(object["metadata"]["generateName"], "job-");
    }
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
}

#[tokio::test(start_paused = true)]
async fn create_sets_defaults_and_resets_status() {
    let cluster = Cluster::new().await;
    let mut given = pod("a");
    given["status"] = json!({"phase": "Running", "podIP": "10.0.0.1"});
    let created = cluster.post(PODS, given).await.expect(201);
    let spec = &created["spec"];
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(created["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
}

#[tokio::test(start_paused = true)]
async fn generation_counts_only_spec_changes() {
    let cluster = Cluster::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    let created = cluster.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    assert_eq!(created["metadata"]["generation"], 1);
    let labelled =
        cluster.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    assert_eq!(labelled["metadata"]["generation"], 1);
    assert!(version(&labelled) > version(&created));
    let scaled = cluster.merge(&path, json!({"spec": {"replicas": 5}})).await.expect(200);
    assert_eq!(scaled["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn update_replaces_the_object() {
    let cluster = Cluster::new().await;
    let created = cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.expect(201);
    let updated = cluster.put(A, config_map("a", json!({"other": "w"}))).await.expect(200);
    assert_eq!(updated["data"], json!({"other": "w"}));
    assert_eq!(updated["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(updated["metadata"]["creationTimestamp"], created["metadata"]["creationTimestamp"]);
    assert_eq!(version(&updated), version(&created) + 1);
}

#[tokio::test(start_paused = true)]
async fn no_op_update_writes_nothing() {
    let cluster = Cluster::new().await;
    let created = cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.expect(201);
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    for body in [created.clone(), config_map("a", json!({"k": "v"}))] {
        assert_eq!(cluster.put(A, body).await.expect(200), created);
    }
    assert_eq!(cluster.merge(A, json!({})).await.expect(200), created);
    assert_eq!(cluster.server.revision(), version(&created));
}

#[tokio::test(start_paused = true)]
async fn update_with_a_stale_resource_version_conflicts() {
    let cluster = Cluster::new().await;
    let first = cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "1"}))).await.expect(201);
    let mut second = first.clone();
    second["data"]["k"] = "2".into();
    cluster.put(A, second.clone()).await.expect(200);
    second["data"]["k"] = "3".into();
    let status = cluster.put(A, second).await.expect_error(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please \
         apply your changes to the latest version and try again",
    );
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test(start_paused = true)]
async fn concurrent_writers_lose_no_update() {
    const WRITERS: usize = 8;
    const ROUNDS: usize = 10;
    let cluster = std::sync::Arc::new(Cluster::new().await);
    cluster.post(CONFIG_MAPS, config_map("a", json!({"count": "0"}))).await.expect(201);
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let cluster = cluster.clone();
        writers.spawn(async move {
            let mut done = 0;
            while done < ROUNDS {
                let mut object = cluster.get(A).await.expect(200);
                // Lets other writers run between read and write.
                tokio::task::yield_now().await;
                let count: usize = text(&object["data"]["count"]).parse().unwrap();
                object["data"]["count"] = (count + 1).to_string().into();
                match cluster.put(A, object).await.status {
                    200 => done += 1,
                    status => assert_eq!(status, 409),
                }
            }
        });
    }
    while let Some(result) = writers.join_next().await {
        result.unwrap();
    }
    let count = cluster.get(A).await.expect(200)["data"]["count"].clone();
    assert_eq!(count, (WRITERS * ROUNDS).to_string());
}

#[tokio::test(start_paused = true)]
async fn only_some_kinds_allow_create_on_update() {
    let cluster = Cluster::new().await;
    cluster.put(A, config_map("a", json!({}))).await.expect_error(
        404,
        "NotFound",
        "configmaps \"a\" not found",
    );
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let body = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15},
    });
    cluster.put(lease, body.clone()).await.expect(201);
    cluster.put(lease, body).await.expect_error(
        422,
        "Invalid",
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: \
         must be specified for an update",
    );
}

#[tokio::test(start_paused = true)]
async fn dry_run_returns_the_result_and_stores_nothing() {
    let cluster = Cluster::new().await;
    let revision = cluster.server.revision();
    let shown = cluster
        .post(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("a", json!({})))
        .await
        .expect(201);
    assert_eq!(text(&shown["metadata"]["uid"]).len(), 36);
    assert_eq!(shown["metadata"].get("resourceVersion"), None);
    cluster.get(A).await.expect(404);

    let created = cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.expect(201);
    let body = config_map("a", json!({"k": "w"}));
    let shown = cluster.put(&format!("{A}?dryRun=All"), body).await.expect(200);
    assert_eq!(shown["data"]["k"], "w");
    cluster.delete(&format!("{A}?dryRun=All")).await.expect(200);
    assert_eq!(cluster.get(A).await.expect(200), created);
    assert_eq!(cluster.server.revision(), revision + 1);
}

#[tokio::test(start_paused = true)]
async fn system_namespaces_and_kubernetes_service_exist() {
    let cluster = Cluster::new().await;
    assert_eq!(
        cluster.names(NAMESPACES).await,
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
    let default = cluster.get("/api/v1/namespaces/default").await.expect(200);
    assert_eq!(default["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "default"}));
    assert_eq!(default["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(default["status"], json!({"phase": "Active"}));
    cluster.get("/api/v1/namespaces/default/services/kubernetes").await.expect(200);
    cluster
        .get("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical")
        .await
        .expect(200);
}

#[tokio::test(start_paused = true)]
async fn managed_fields_record_the_manager_and_its_fields() {
    let cluster = Cluster::new().await;
    let headers =
        [("content-type", "application/json"), ("user-agent", "operator/v1.2 (linux/amd64)")];
    let body = config_map("a", json!({"k": "v"})).to_string();
    let created = cluster.send(Method::POST, CONFIG_MAPS, &headers, body).await.expect(201);
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "operator", "operation": "Update", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
        }])
    );
    let path = format!("{A}?fieldManager=other");
    let patched = cluster.merge(&path, json!({"data": {"n": "1"}})).await.expect(200);
    let managers: Vec<&Value> = patched["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["manager"])
        .collect();
    assert_eq!(managers, ["operator", "other"]);
}

#[tokio::test(start_paused = true)]
async fn secret_string_data_is_stored_as_data() {
    let cluster = Cluster::new().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let body = json!({"metadata": {"name": "s"}, "stringData": {"a": "hello"}});
    let created = cluster.post(secrets, body).await.expect(201);
    assert_eq!(created["data"], json!({"a": "aGVsbG8="}));
    assert_eq!(created.get("stringData"), None);
    assert_eq!(created["type"], "Opaque");
}

#[tokio::test(start_paused = true)]
async fn services_get_cluster_ips_of_the_range_and_keep_them() {
    let cluster = Cluster::new().await;
    let services = "/api/v1/namespaces/default/services";
    let body = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let a = cluster.post(services, body("a")).await.expect(201);
    let b = cluster.post(services, body("b")).await.expect(201);
    let address = text(&a["spec"]["clusterIP"]);
    assert!(address.starts_with("10.0."), "{address}");
    assert_ne!(address, text(&b["spec"]["clusterIP"]));
    assert_eq!(a["spec"]["clusterIPs"], json!([address]));
    let patched = cluster
        .merge(&format!("{services}/a"), json!({"spec": {"ports": [{"port": 81}]}}))
        .await
        .expect(200);
    assert_eq!(text(&patched["spec"]["clusterIP"]), address);
}
