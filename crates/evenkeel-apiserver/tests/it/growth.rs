//! The cost of a request is linear in its size: whole requests that the growth tests of the pure
//! crates do not cover, and many CRDs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{
    CONFIG_MAPS, CRDS, Cluster, DEPLOYMENTS, PODS, Patch, config_map, deployment, pod, widget_crd,
};

/// The ratio of the two input sizes.
const FACTOR: usize = 8;
/// Linear work takes eight times as long, quadratic work sixty-four times.
const LIMIT: f64 = 18.0;

/// Returns the CPU time of this thread, which excludes other threads and processes.
fn now() -> Duration {
    // The kernel updates the value on a context switch.
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = stat.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap())
}

/// Sends requests of two sizes several times and compares the minimum durations.
async fn assert_linear(what: &str, few: usize, send: impl AsyncFn(&Cluster, usize)) {
    let mut least = [Duration::MAX; 2];
    let mut ratio = f64::MAX;
    for _ in 0..6 {
        for (least, n) in least.iter_mut().zip([few, FACTOR * few]) {
            let cluster = Cluster::new().await;
            let start = now();
            send(&cluster, n).await;
            *least = now().saturating_sub(start).min(*least);
        }
        ratio = least[1].as_secs_f64() / least[0].as_secs_f64();
        if ratio < LIMIT {
            return;
        }
    }
    panic!("{what}: {FACTOR} times the input took {ratio:.1} times as long, {least:?}");
}

fn owners(n: usize) -> Value {
    let owner = |i| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": format!("u{i}")});
    (0..n).map(owner).collect()
}

fn env(n: usize, value: &str) -> Value {
    (0..n).map(|i| json!({"name": format!("E{i}"), "value": value})).collect()
}

fn with_env(n: usize, value: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "env": env(n, value)});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

#[tokio::test(start_paused = true)]
async fn owner_references_are_compared_in_linear_time() {
    assert_linear("owner references", 250, async |cluster, n| {
        let mut object = config_map("a", json!({}));
        object["metadata"]["ownerReferences"] = owners(n);
        cluster.post(CONFIG_MAPS, object).await.expect(201);
        let finalizers: Value = (0..n).map(|i| format!("example.com/f{i}")).collect();
        let change = json!({"metadata": {"finalizers": finalizers}});
        cluster.merge(&format!("{CONFIG_MAPS}/a"), change).await.expect(200);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn patches_of_long_lists_take_linear_time() {
    let path = format!("{DEPLOYMENTS}/d");
    // An apply if there is no patch type.
    for patch in [Some(Patch::Strategic), Some(Patch::Merge), Some(Patch::Json), None] {
        assert_linear(&format!("{patch:?}"), 100, async |cluster, n| {
            let mut object = deployment("d");
            let containers = &mut object["spec"]["template"]["spec"]["containers"];
            *containers = with_env(n, "1")["spec"]["template"]["spec"]["containers"].take();
            cluster.post(DEPLOYMENTS, object.clone()).await.expect(201);
            let change = with_env(n, "2");
            match patch {
                None => {
                    object["spec"]["template"]["spec"]["containers"][0]["env"] = env(n, "2");
                    let query = "?fieldManager=m&force=true";
                    cluster.apply(&path, query, object).await.expect(200);
                }
                Some(patch @ Patch::Json) => {
                    let place = "/spec/template/spec/containers/0/env";
                    let operation = |i| {
                        let path = format!("{place}/{i}/value");
                        json!({"op": "replace", "path": path, "value": "2"})
                    };
                    let operations = (0..n).map(operation).collect();
                    cluster.patch(&path, patch, operations).await.expect(200);
                }
                Some(patch) => _ = cluster.patch(&path, patch, change).await.expect(200),
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn node_ports_are_allocated_in_linear_time() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    assert_linear("ports", 150, async |cluster, n| {
        let port = |i| json!({"name": format!("p{i}"), "port": i + 1});
        let ports: Value = (0..n).map(port).collect();
        let spec = json!({"type": "NodePort", "ports": ports});
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec,
        });
        cluster.post(&format!("{SERVICES}?dryRun=All"), service.clone()).await.expect(201);
        let mut created = cluster.post(SERVICES, service).await.expect(201);
        created["spec"]["ports"].as_array_mut().unwrap().reverse();
        cluster.put(&format!("{SERVICES}/s"), created).await.expect(200);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn runtime_class_tolerations_are_merged_in_linear_time() {
    let tolerations = |n: usize, prefix: &str| -> Value {
        let toleration = |i| json!({"key": format!("{prefix}{i}"), "operator": "Exists"});
        (0..n).map(toleration).collect()
    };
    assert_linear("tolerations", 600, async |cluster, n| {
        let class = json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "c"},
            "handler": "h", "scheduling": {"tolerations": tolerations(3, "c")},
        });
        cluster.post("/apis/node.k8s.io/v1/runtimeclasses", class).await.expect(201);
        let mut object = pod("p");
        object["spec"]["runtimeClassName"] = "c".into();
        object["spec"]["tolerations"] = tolerations(n, "p");
        let created = cluster.post(PODS, object).await.expect(201);
        assert_eq!(created["spec"]["tolerations"].as_array().unwrap().len(), n + 5);
    })
    .await;
}

/// Returns the `i`-th of many CRDs.
fn definition(i: usize, group: &str) -> Value {
    let mut definition = widget_crd();
    definition["metadata"]["name"] = format!("things{i}.{group}").into();
    definition["spec"]["group"] = group.into();
    definition["spec"]["names"] = json!({
        "plural": format!("things{i}"), "singular": format!("thing{i}"),
        "kind": format!("Thing{i}"), "listKind": format!("Thing{i}List"),
    });
    definition
}

#[tokio::test(start_paused = true)]
async fn cost_of_a_crd_does_not_grow_with_their_number() {
    const BATCH: usize = 25;
    const BATCHES: usize = 13;
    for own_group in [false, true] {
        let cluster = Cluster::new().await;
        let mut times = Vec::new();
        for batch in 0..BATCHES {
            let start = now();
            for i in batch * BATCH..(batch + 1) * BATCH {
                let group = if own_group { format!("g{i}.io") } else { "shared.io".into() };
                cluster.post(CRDS, definition(i, &group)).await.expect(201);
                cluster.get(&format!("/apis/{group}/v1/things{i}")).await.expect(200);
            }
            times.push(now().saturating_sub(start).as_secs_f64());
        }
        // With work per existing CRD, the last one would take many times as long. The first one
        // includes one-time initialization.
        let least = |times: &[f64]| times.iter().copied().fold(f64::MAX, f64::min);
        let (first, last) = (least(&times[1..4]), least(&times[BATCHES - 3..]));
        assert!(last < 2.5 * first, "own group {own_group}: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn crd_with_many_versions_takes_linear_time() {
    assert_linear("versions", 40, async |cluster, n| {
        let mut object = definition(0, "many.io");
        let first = object["spec"]["versions"][0].clone();
        let version = |i: usize| {
            let mut version = first.clone();
            version["name"] = format!("v{}", i + 1).into();
            version["storage"] = (i == 0).into();
            version["deprecated"] = (i + 1 < n).into();
            version
        };
        object["spec"]["versions"] = (0..n).map(version).collect();
        cluster.post(CRDS, object).await.expect(201);
        cluster.get("/openapi/v3").await.expect(200);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn openapi_index_is_built_in_linear_time() {
    let mut times = Vec::new();
    let cluster = Cluster::new().await;
    let mut created = 0;
    for count in [20, 20 * FACTOR] {
        while created < count {
            let group = format!("g{created}.io");
            cluster.post(CRDS, definition(created, &group)).await.expect(201);
            created += 1;
        }
        let mut least = Duration::MAX;
        for _ in 0..3 {
            // Rebuilt on every change.
            let name = format!("{CRDS}/things0.g0.io");
            let change = json!({"spec": {"names": {"categories": [format!("c{least:?}")]}}});
            cluster.merge(&name, change).await;
            let start = now();
            cluster.get("/openapi/v3").await.expect(200);
            least = least.min(now().saturating_sub(start));
        }
        times.push(least.as_secs_f64());
    }
    assert!(times[1] < LIMIT * times[0], "{times:?}");
}
