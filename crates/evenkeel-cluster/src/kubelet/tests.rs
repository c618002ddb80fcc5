//! Pods on simulated nodes, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::testing::virtual_cluster::{VirtualCluster, until};
use crate::{ClusterOptions, Delays, POD_SIMULATION_ANNOTATION, PodSimulation, PodSimulations};

fn pod(simulation: &str, policy: &str) -> Value {
    json!({
        "metadata": {"name": "one", "annotations": {POD_SIMULATION_ANNOTATION: simulation}},
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": "app", "image": "app:1"}],
        },
    })
}

fn phase(pod: &Pod) -> &str {
    crate::pods::phase(pod)
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

fn waiting(pod: &Pod) -> Option<&str> {
    container(pod)?.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

fn conditions(pod: &Pod) -> BTreeMap<String, String> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.map(|condition| (condition.type_.clone(), condition.status.clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_becomes_ready_after_the_configured_delays() {
    let second = Duration::from_secs(1);
    let delays =
        Delays { schedule: second, start: 2 * second, ready: 4 * second, ..Delays::default() };
    let cluster =
        VirtualCluster::start(ClusterOptions { delays, ..ClusterOptions::default() }).await;
    let started = Instant::now();
    cluster.create::<Pod>(pod("", "Always")).await;
    let bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    cluster.until_one::<Pod>("one", bound).await;
    assert_eq!(started.elapsed().as_secs(), 1);
    let one = cluster.until_one::<Pod>("one", |pod| waiting(pod).is_some()).await;
    assert_eq!((phase(&one), waiting(&one)), ("Pending", Some("ContainerCreating")));
    assert_eq!(one.status.as_ref().unwrap().pod_ip, None);
    let one = cluster.until_one::<Pod>("one", |pod| phase(pod) == "Running").await;
    assert_eq!(started.elapsed().as_secs(), 3);
    assert_eq!(conditions(&one)["Ready"], "False");
    let one = cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
    assert_eq!(started.elapsed().as_secs(), 7);
    for name in ["PodScheduled", "Initialized", "ContainersReady", "PodReadyToStartContainers"] {
        assert_eq!(conditions(&one)[name], "True", "{name}");
    }
    let status = one.status.unwrap();
    assert!(status.pod_ip.unwrap().starts_with("10.128.1."));
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
    assert!(status.start_time.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_backs_off_longer_each_time() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Pod>(pod("crash-loop", "Always")).await;
    let mut backoffs = Vec::new();
    let mut last = (Instant::now(), 0);
    cluster
        .until_one::<Pod>("one", |pod| {
            let restarts = container(pod).map_or(0, |container| container.restart_count);
            if restarts > last.1 {
                backoffs.push(last.0.elapsed().as_secs());
                last = (Instant::now(), restarts);
            }
            restarts == 5
        })
        .await;
    // The first restart is immediate, together with the second crash.
    assert_eq!(backoffs, [0, 10, 20, 40, 80]);
    let one = cluster.until_one::<Pod>("one", |p| waiting(p) == Some("CrashLoopBackOff")).await;
    assert_eq!(phase(&one), "Running");
    assert_eq!(conditions(&one)["Ready"], "False");
    let last = container(&one).unwrap().last_state.as_ref().unwrap();
    assert_eq!(last.terminated.as_ref().unwrap().exit_code, 1);
}

#[tokio::test(start_paused = true)]
async fn simulations_take_effect() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    for (name, simulation, policy, wanted) in [
        ("pulls", "image-pull-error", "Always", "Pending"),
        ("sulks", "never-ready", "Always", "Running"),
        ("ends", "complete-after=5s", "Never", "Succeeded"),
        ("fails", "fail-after=5s,exit-code=3", "Never", "Failed"),
    ] {
        let mut object = pod(simulation, policy);
        object["metadata"]["name"] = json!(name);
        let started = Instant::now();
        cluster.create::<Pod>(object).await;
        let one = cluster
            .until_one::<Pod>(name, |pod| phase(pod) == wanted && container(pod).is_some())
            .await;
        assert_eq!(conditions(&one)["Ready"], "False", "{name}");
        let ended = container(&one).unwrap().state.as_ref().unwrap().terminated.as_ref();
        match name {
            "pulls" => assert_eq!(waiting(&one), Some("ErrImagePull")),
            "ends" => assert_eq!(ended.unwrap().exit_code, 0),
            "fails" => assert_eq!(ended.unwrap().exit_code, 3),
            _ => assert_eq!(ended, None),
        }
        let took = if ended.is_some() { 5 } else { 0 };
        assert_eq!(started.elapsed().as_secs(), took, "{name}");
    }
    cluster.until_one::<Pod>("pulls", |pod| waiting(pod) == Some("ImagePullBackOff")).await;
}

#[tokio::test(start_paused = true)]
async fn simulations_can_be_set_for_pods_without_the_annotation() {
    let pod_simulations = PodSimulations::new(|pod| {
        let image = pod.spec.as_ref()?.containers.first()?.image.as_deref()?;
        image.ends_with(":broken").then(PodSimulation::image_pull_error)
    });
    let cluster =
        VirtualCluster::start(ClusterOptions { pod_simulations, ..ClusterOptions::default() })
            .await;
    let mut object = pod("", "Always");
    object["metadata"]["annotations"] = json!({});
    object["spec"]["containers"][0]["image"] = json!("app:broken");
    cluster.create::<Pod>(object).await;
    cluster.until_one::<Pod>("one", |pod| waiting(pod) == Some("ErrImagePull")).await;
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_can_be_made_to_fail() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Pod>(pod("", "Always")).await;
    cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
    cluster.inner.simulate_pod("default", "one", &PodSimulation::crash_loop()).await.unwrap();
    cluster.until_one::<Pod>("one", |pod| waiting(pod) == Some("CrashLoopBackOff")).await;
    cluster.inner.simulate_pod("default", "one", &PodSimulation::default()).await.unwrap();
    cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_stops_within_its_grace_period() {
    let delays = Delays { stop: Duration::from_secs(4), ..Delays::default() };
    let cluster =
        VirtualCluster::start(ClusterOptions { delays, ..ClusterOptions::default() }).await;
    for (simulation, grace, took, code) in
        [("", 30, 4, 0), ("ignore-term", 30, 30, 137), ("", 2, 2, 137), ("ignore-term", 0, 0, 137)]
    {
        cluster.create::<Pod>(pod(simulation, "Always")).await;
        cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
        let (started, states) = (Instant::now(), cluster.record::<Pod>().await);
        cluster
            .api::<Pod>()
            .delete("one", &DeleteParams::default().grace_period(grace))
            .await
            .unwrap();
        cluster.until::<Pod>("it is deleted", BTreeMap::is_empty).await;
        assert_eq!(started.elapsed().as_secs(), took, "{simulation} {grace}");
        let mut codes = Vec::new();
        for pod in states.finish().await {
            // The final delete has no grace period.
            let period = pod.metadata.deletion_grace_period_seconds;
            let deleted = pod.metadata.deletion_timestamp.is_some();
            assert!(!deleted || [Some(0), Some(i64::from(grace))].contains(&period), "{period:?}");
            let state = container(&pod).and_then(|container| container.state.as_ref());
            codes.extend(state.and_then(|s| Some(s.terminated.as_ref()?.exit_code)));
        }
        codes.dedup();
        if grace > 0 {
            assert_eq!(codes, [code], "{simulation} {grace}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn init_containers_complete_before_the_others_start() {
    let delays = Delays { start: Duration::from_secs(1), ..Delays::default() };
    let cluster =
        VirtualCluster::start(ClusterOptions { delays, ..ClusterOptions::default() }).await;
    let mut object = pod("", "Always");
    object["spec"]["initContainers"] = json!([
        {"name": "first", "image": "init:1"},
        {"name": "stays", "image": "init:1", "restartPolicy": "Always"},
    ]);
    cluster.create::<Pod>(object).await;
    let one = cluster.until_one::<Pod>("one", |pod| waiting(pod).is_some()).await;
    assert_eq!(waiting(&one), Some("PodInitializing"));
    assert_eq!(conditions(&one)["Initialized"], "False");
    let one = cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
    let inits = one.status.as_ref().unwrap().init_container_statuses.clone().unwrap();
    let states: Vec<_> = inits.iter().map(|init| init.state.clone().unwrap()).collect();
    assert!(states[0].terminated.is_some() && states[1].running.is_some(), "{states:?}");
    assert_eq!(conditions(&one)["Initialized"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_failing_init_container_blocks_the_app_container() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = pod("", "Always");
    object["spec"]["initContainers"] =
        json!([{"name": "migrate", "image": "init:1", "command": ["sh", "-c", "exit 1"]}]);
    cluster.create::<Pod>(object).await;
    let state = |pod: &Pod| {
        let inits = pod.status.as_ref()?.init_container_statuses.as_ref()?;
        inits.first()?.state.as_ref()?.waiting.as_ref()?.reason.clone()
    };
    let looping = |pod: &Pod| state(pod).as_deref() == Some("CrashLoopBackOff");
    let one = cluster.until_one::<Pod>("one", looping).await;
    assert_eq!((phase(&one), waiting(&one)), ("Pending", Some("PodInitializing")));
    assert_eq!(container(&one).unwrap().container_id, None, "it has never run");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_node_loses_its_pods_and_recovers() {
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await;
    let ready = |wanted: &'static str| {
        move |nodes: &BTreeMap<String, Node>| {
            let node = nodes.get("node-1");
            let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
            conditions.is_some_and(|c| c.iter().any(|c| c.type_ == "Ready" && c.status == wanted))
        }
    };
    cluster.until::<Node>("ready", ready("True")).await;
    let mut object = pod("", "Always");
    object["spec"]["nodeName"] = json!("node-1");
    cluster.create::<Pod>(object).await;
    cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
    let started = Instant::now();
    cluster.inner.take_node_down("node-1").await.unwrap();
    cluster.until::<Node>("unknown", ready("Unknown")).await;
    assert!((40..=61).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    cluster.until_one::<Pod>("one", |pod| conditions(pod)["Ready"] == "False").await;
    // Every pod tolerates the taint for five minutes by default. Then it is deleted, and remains
    // until its kubelet reports that it has stopped.
    let evicted = Instant::now();
    cluster.until_one::<Pod>("one", |pod| pod.metadata.deletion_timestamp.is_some()).await;
    assert!((299..=301).contains(&evicted.elapsed().as_secs()), "{:?}", evicted.elapsed());
    cluster.advance(Duration::from_secs(120)).await;
    assert!(cluster.api::<Pod>().get_opt("one").await.unwrap().is_some());
    cluster.inner.bring_node_up("node-1").await.unwrap();
    cluster.until::<Node>("ready again", ready("True")).await;
    cluster.until::<Pod>("deleted", BTreeMap::is_empty).await;
    cluster
        .until::<Node>("no taints", |nodes| {
            nodes["node-1"].spec.as_ref().is_none_or(|spec| spec.taints.is_none())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_deleted() {
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    cluster.until::<Node>("two", |nodes| nodes.len() == 2).await;
    let mut object = pod("", "Always");
    object["spec"]["nodeName"] = json!("node-1");
    cluster.create::<Pod>(object).await;
    cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
    nodes.delete("node-1", &DeleteParams::default()).await.unwrap();
    cluster.until::<Pod>("deleted", BTreeMap::is_empty).await;
    assert!(nodes.get_opt("node-1").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn nodes_renew_their_leases() {
    use k8s_openapi::api::coordination::v1::Lease;
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut times = Vec::new();
    until::<Lease>(&cluster.client, "kube-node-lease", "three renewals", |leases| {
        let lease = leases.get("node-1").and_then(|lease| lease.spec.as_ref());
        if let Some(time) = lease.and_then(|spec| spec.renew_time.clone())
            && times.last() != Some(&time)
        {
            times.push(time);
        }
        times.len() == 3
    })
    .await;
    assert_eq!(times[2].0.duration_since(times[0].0).as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_probes_is_not_ready_before_they_are_sent() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = pod("", "Always");
    object["spec"]["containers"][0]["readinessProbe"] =
        json!({"initialDelaySeconds": 7, "httpGet": {"port": 80}});
    let started = Instant::now();
    cluster.create::<Pod>(object).await;
    cluster.until_one::<Pod>("one", |pod| phase(pod) == "Running").await;
    assert_eq!(started.elapsed().as_secs(), 0);
    cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
    assert_eq!(started.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_recognized_command_determines_the_exit() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let started = Instant::now();
    let mut sleeper = pod("", "Never");
    sleeper["spec"]["containers"] = json!([
        {"name": "nap", "image": "busybox", "command": ["sleep", "30"]},
        {"name": "slip", "image": "busybox", "command": ["sh", "-c"], "args": ["sleep 5; exit 7"]},
    ]);
    cluster.create::<Pod>(sleeper).await;
    let one = cluster.until_one::<Pod>("one", crate::pods::is_terminal).await;
    assert_eq!((phase(&one), started.elapsed().as_secs()), ("Failed", 30));
    let statuses = one.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
    let codes: Vec<i32> = statuses
        .iter()
        .map(|it| it.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code)
        .collect();
    assert_eq!(codes, [0, 7], "each container has its own exit code");
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_command_keeps_running_with_restart_policy_never() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let startup = json!({"startupProbe": {"periodSeconds": 3, "httpGet": {"port": 80}}});
    for (name, more) in [("plain", json!({})), ("probed", startup)] {
        let mut object = pod("", "Never");
        object["metadata"]["name"] = json!(name);
        let container = object["spec"]["containers"][0].as_object_mut().unwrap();
        container.extend(more.as_object().unwrap().clone());
        cluster.create::<Pod>(object).await;
        cluster.until_one::<Pod>(name, crate::pods::is_ready).await;
    }
    cluster.advance(Duration::from_secs(600)).await;
    let pods = cluster.until::<Pod>("both", |pods| pods.len() == 2).await;
    assert!(pods.values().all(|pod| phase(pod) == "Running" && crate::pods::is_ready(pod)));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_sleep_is_killed_at_the_end_of_its_grace_period() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = pod("", "Never");
    object["spec"]["containers"][0]["command"] = json!(["sleep", "3600"]);
    cluster.create::<Pod>(object).await;
    cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
    let started = Instant::now();
    cluster.api::<Pod>().delete("one", &DeleteParams::default()).await.unwrap();
    cluster.advance(Duration::from_secs(29)).await;
    let one = cluster.until_one::<Pod>("one", |_| true).await;
    assert!(one.metadata.deletion_timestamp.is_some());
    assert_eq!((phase(&one), conditions(&one)["Ready"].as_str()), ("Running", "True"));
    let states = cluster.record::<Pod>().await;
    cluster.until::<Pod>("it is deleted", BTreeMap::is_empty).await;
    assert_eq!(started.elapsed().as_secs(), 30);
    let states = states.finish().await;
    let end = states.iter().rfind(|pod| crate::pods::is_terminal(pod)).unwrap();
    let state = container(end).unwrap().state.clone().unwrap().terminated.unwrap();
    assert_eq!(
        (phase(end), state.exit_code, state.reason.as_deref()),
        ("Failed", 137, Some("Error"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_seen_with_its_deletion_timestamp() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Pod>(pod("", "Always")).await;
    cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
    let started = Instant::now();
    cluster.api::<Pod>().delete("one", &DeleteParams::default()).await.unwrap();
    cluster.until::<Pod>("it is deleted", BTreeMap::is_empty).await;
    let took = started.elapsed();
    assert!((40..=100).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn events_have_the_field_path_of_the_container() {
    use k8s_openapi::api::core::v1::Event;
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Pod>(pod("", "Always")).await;
    cluster.until_one::<Pod>("one", crate::pods::is_ready).await;
    cluster.api::<Pod>().delete("one", &DeleteParams::default()).await.unwrap();
    let wanted = ["Scheduled", "Pulled", "Created", "Started", "Killing"];
    let events = cluster
        .until::<Event>("all events", |events| {
            let has =
                |reason: &&str| events.values().any(|it| it.reason.as_deref() == Some(reason));
            wanted.iter().all(has)
        })
        .await;
    let started = events.values().find(|event| event.reason.as_deref() == Some("Started")).unwrap();
    assert_eq!(started.message.as_deref(), Some("Container started"));
    assert_eq!(started.involved_object.field_path.as_deref(), Some("spec.containers{app}"));
}
