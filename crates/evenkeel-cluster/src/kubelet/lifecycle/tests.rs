//! The state machine without a cluster: the pod status over time.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Inputs, Lifecycle};
use crate::kubelet::events::Events;
use crate::kubelet::simulation::PodSimulation;
use crate::kubelet::status;
use crate::nodes::NodeProperties;
use crate::options::Delays;

mod random;

/// A pod on its node, with its own time.
struct Run {
    pod: Pod,
    simulation: PodSimulation,
    delays: Delays,
    lifecycle: Lifecycle,
    started: Instant,
    now: Duration,
    due: Option<Duration>,
    events: Vec<String>,
}

impl Run {
    fn new(spec: &Value, simulation: &str) -> Self {
        let metadata = json!({"name": "one", "namespace": "default", "uid": "1"});
        let pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let started = Instant::now();
        Self {
            pod,
            simulation: simulation.parse().unwrap(),
            delays: Delays { stop: Duration::from_secs(1), ..Delays::default() },
            lifecycle: Lifecycle::new("1", "node", None, started),
            started,
            now: Duration::ZERO,
            due: Some(Duration::ZERO),
            events: Vec::new(),
        }
    }

    fn wall(&self) -> Time {
        let start = jiff::Timestamp::from_second(1_767_225_600).unwrap();
        Time(start + jiff::SignedDuration::try_from(self.now).unwrap())
    }

    /// Performs what is due now.
    fn advance(&mut self) {
        let (now, wall) = (self.started + self.now, self.wall());
        let inputs = Inputs {
            pod: &self.pod,
            simulation: &self.simulation,
            delays: &self.delays,
            now,
            wall: &wall,
        };
        let mut events = Events::new(&self.pod);
        let next = self.lifecycle.advance(&inputs, &mut events);
        assert!(next.is_none_or(|at| at > now), "due in the past: {:?}", self.lifecycle);
        self.due = next.map(|at| at - self.started);
        self.events.extend(events.into_list().into_iter().map(|event| {
            let kind = if event.warning { "Warning" } else { "Normal" };
            let path = event.field_path.unwrap_or_default();
            format!("{kind} {} {path} {}", event.reason, event.message)
        }));
        let properties =
            NodeProperties { simulated: true, down: false, address: None, network: None };
        self.pod.status = Some(status::of(&self.pod, &self.lifecycle, &properties, &wall));
    }

    /// Advances time. Returns what was shown whenever that changed.
    fn until(&mut self, seconds: u64) -> Vec<String> {
        let (end, mut shown) = (Duration::from_secs(seconds), Vec::new());
        let mut last = String::new();
        loop {
            self.advance();
            let line = self.shown();
            if line != last {
                shown.push(format!("{}s {line}", self.now.as_secs_f64()));
                last = line;
            }
            match self.due.filter(|due| *due <= end) {
                Some(due) => self.now = due,
                None => break,
            }
        }
        self.now = end;
        shown
    }

    /// Returns phase and containers, as kubectl shows them.
    fn shown(&self) -> String {
        let status = self.pod.status.as_ref().unwrap();
        let lists = [
            &status.init_container_statuses,
            &status.container_statuses,
            &status.ephemeral_container_statuses,
        ];
        let containers = lists.into_iter().flatten().flatten().map(container);
        let all: Vec<String> = containers.collect();
        format!("{} {}", status.phase.as_deref().unwrap(), all.join(" "))
    }

    fn condition(&self, name: &str) -> String {
        let condition = crate::pods::condition(&self.pod, name).unwrap();
        let reason = condition.reason.as_deref().unwrap_or_default();
        let message = condition.message.as_deref().unwrap_or_default();
        format!("{} {reason} {message}", condition.status).trim_end().to_owned()
    }

    fn delete(&mut self, grace: i64) {
        self.pod.metadata.deletion_timestamp = Some(self.wall());
        self.pod.metadata.deletion_grace_period_seconds = Some(grace);
    }
}

/// `name=state`, with the restart count if there is one.
fn container(status: &ContainerStatus) -> String {
    let state = status.state.as_ref().unwrap();
    let state = if state.running.is_some() {
        match (status.started == Some(true), status.ready) {
            (true, true) => "ready".to_owned(),
            (true, false) => "running".to_owned(),
            (false, _) => "starting".to_owned(),
        }
    } else if let Some(ended) = &state.terminated {
        format!("{}({})", ended.reason.as_deref().unwrap(), ended.exit_code)
    } else {
        state.waiting.as_ref().unwrap().reason.clone().unwrap()
    };
    match status.restart_count {
        0 => format!("{}={state}", status.name),
        count => format!("{}={state}*{count}", status.name),
    }
}

fn app(more: &Value) -> Value {
    let mut app = json!({"name": "app", "image": "app:1"});
    app.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    app
}

fn named(name: &str, more: &Value) -> Value {
    let mut container = app(more);
    container["name"] = json!(name);
    container
}

fn pod(policy: &str, container: &Value) -> Value {
    json!({"restartPolicy": policy, "containers": [app(container)]})
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_before_the_others() {
    let mut spec = pod("Always", &json!({}));
    spec["initContainers"] = json!([
        named("wait", &json!({"command": ["sleep", "5"]})),
        named(
            "proxy",
            &json!({
                "restartPolicy": "Always", "startupProbe": {"initialDelaySeconds": 3},
            })
        ),
        named("last", &json!({})),
    ]);
    let mut run = Run::new(&spec, "");
    assert_eq!(
        run.until(60),
        [
            "0s Pending wait=running proxy=PodInitializing last=PodInitializing app=PodInitializing",
            "5s Pending wait=Completed(0) proxy=starting last=PodInitializing app=PodInitializing",
            "8s Running wait=Completed(0) proxy=ready last=Completed(0) app=ready",
        ]
    );
    assert_eq!(run.condition("Initialized"), "True");
}

#[tokio::test(start_paused = true)]
async fn a_failing_init_container_blocks_the_others() {
    let mut spec = pod("Always", &json!({}));
    spec["initContainers"] = json!([named("migrate", &json!({}))]);
    let mut run = Run::new(&spec, "migrate:fail-after=2s");
    assert_eq!(
        run.until(28),
        [
            "0s Pending migrate=running app=PodInitializing",
            "2s Pending migrate=running*1 app=PodInitializing",
            "4s Pending migrate=Error(1)*1 app=PodInitializing",
            "5s Pending migrate=CrashLoopBackOff*1 app=PodInitializing",
            "14s Pending migrate=running*2 app=PodInitializing",
            "16s Pending migrate=Error(1)*2 app=PodInitializing",
            "17s Pending migrate=CrashLoopBackOff*2 app=PodInitializing",
        ]
    );
    assert_eq!(
        run.condition("Initialized"),
        "False ContainersNotInitialized containers with incomplete status: [migrate]"
    );
    assert_eq!(
        run.condition("Ready"),
        "False ContainersNotReady containers with unready status: [app]"
    );
    // Once it succeeds, the pod starts.
    run.simulation = PodSimulation::default();
    assert_eq!(run.until(60).last().unwrap(), "36s Running migrate=Completed(0)*3 app=ready");

    spec["restartPolicy"] = json!("Never");
    let mut run = Run::new(&spec, "migrate:fail-after=2s");
    assert_eq!(run.until(60).last().unwrap(), "2s Failed migrate=Error(1) app=PodInitializing");
}

#[tokio::test(start_paused = true)]
async fn failed_image_pulls_back_off_exponentially() {
    let mut run = Run::new(&pod("Always", &json!({})), "image-pull-error");
    assert_eq!(
        run.until(60),
        [
            "0s Pending app=ErrImagePull",
            "1s Pending app=ImagePullBackOff",
            "10s Pending app=ErrImagePull",
            "11s Pending app=ImagePullBackOff",
            "30s Pending app=ErrImagePull",
            "31s Pending app=ImagePullBackOff",
        ]
    );
    assert_eq!(run.condition("PodReadyToStartContainers"), "True");
    let error = "rpc error: code = NotFound desc = failed to pull and unpack image \"app:1\": not \
                 found";
    assert_eq!(
        run.events[..5],
        [
            "Normal Pulling spec.containers{app} Pulling image \"app:1\"".to_owned(),
            format!(
                "Warning Failed spec.containers{{app}} Failed to pull image \"app:1\": {error}"
            ),
            "Warning Failed spec.containers{app} Error: ErrImagePull".to_owned(),
            "Normal BackOff spec.containers{app} Back-off pulling image \"app:1\"".to_owned(),
            "Warning Failed spec.containers{app} Error: ImagePullBackOff".to_owned(),
        ]
    );
    run.simulation = PodSimulation::default();
    assert_eq!(run.until(100).last().unwrap(), "70s Running app=ready");
}

#[tokio::test(start_paused = true)]
async fn invalid_image_names_and_pull_policy_never_have_their_own_reasons() {
    let mut run = Run::new(&pod("Always", &json!({"image": "App:1"})), "");
    assert_eq!(run.until(60), ["0s Pending app=InvalidImageName"]);
    assert_eq!(run.events.len(), 2, "reported once: {:?}", run.events);
    // The image of a pod can be changed.
    run.pod.spec.as_mut().unwrap().containers[0].image = Some("app:1".to_owned());
    assert_eq!(run.until(61).last().unwrap(), "60s Running app=ready");
    let mut run = Run::new(&pod("Always", &json!({"image": "registry.invalid:5000/app:1"})), "");
    assert_eq!(run.until(5), ["0s Pending app=ErrImagePull", "1s Pending app=ImagePullBackOff"]);
    assert!(run.events[1].ends_with("lookup registry.invalid: no such host"), "{:?}", run.events);
    let never = json!({"imagePullPolicy": "Never"});
    let mut run = Run::new(&pod("Always", &never), "image-pull-error");
    assert_eq!(run.until(60), ["0s Pending app=ErrImageNeverPull"]);
    assert_eq!(Run::new(&pod("Always", &never), "").until(60), ["0s Running app=ready"]);
}

#[tokio::test(start_paused = true)]
async fn an_image_is_pulled_again_on_restart_only_with_pull_policy_always() {
    for (policy, wanted) in [("IfNotPresent", "app=ready*2"), ("Always", "app=ErrImagePull*1")] {
        let container = json!({"imagePullPolicy": policy});
        let mut run = Run::new(&pod("Always", &container), "fail-after=1s");
        run.until(1);
        run.simulation = "image-pull-error,fail-after=1s".parse().unwrap();
        let shown = run.until(12);
        assert!(shown.iter().any(|line| line.contains(wanted)), "{policy} {shown:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_container_has_its_own_simulation() {
    let mut spec = pod("Always", &json!({}));
    spec["containers"] = json!([app(&json!({})), named("bad", &json!({}))]);
    let mut run = Run::new(&spec, "bad:crash-loop");
    assert_eq!(
        run.until(11),
        [
            "0s Running app=ready bad=Error(1)*1",
            "1s Running app=ready bad=CrashLoopBackOff*1",
            "10s Running app=ready bad=Error(1)*2",
            "11s Running app=ready bad=CrashLoopBackOff*2",
        ]
    );
    assert_eq!(
        run.condition("ContainersReady"),
        "False ContainersNotReady containers with unready status: [bad]"
    );
    spec["restartPolicy"] = json!("Never");
    let mut run = Run::new(&spec, "complete-after=2s,bad:fail-after=1s,bad:exit-code=3");
    assert_eq!(run.until(9).last().unwrap(), "2s Failed app=Completed(0) bad=Error(3)");
    assert_eq!(run.condition("Ready"), "False PodFailed");
}

#[tokio::test(start_paused = true)]
async fn containers_without_a_command_keep_running_and_commands_complete() {
    let startup = json!({"startupProbe": {"initialDelaySeconds": 2}});
    for (container, wanted) in [
        (json!({}), "0s Running app=ready"),
        (startup, "2s Running app=ready"),
        (json!({"command": ["migrate"]}), "0s Succeeded app=Completed(0)"),
        (json!({"command": ["sleep", "7"]}), "7s Succeeded app=Completed(0)"),
        (json!({"command": ["sh", "-c", "sleep 7; exit 4"]}), "7s Failed app=Error(4)"),
    ] {
        let mut run = Run::new(&pod("Never", &container), "");
        assert_eq!(run.until(600).last().unwrap(), wanted, "{container}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_takes_as_long_as_its_containers() {
    let hook = json!({"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}});
    for (container, simulation, grace, wanted) in [
        (json!({}), "", 30, "101s Succeeded app=Completed(0)"),
        (json!({"command": ["sleep", "3600"]}), "", 30, "130s Failed app=Error(137)"),
        (json!({"command": ["sleep", "3600"]}), "", 1, "102s Failed app=Error(137)"),
        (json!({}), "ignore-term", 30, "130s Failed app=Error(137)"),
        (json!({}), "stop-after=12s", 30, "112s Succeeded app=Completed(0)"),
        (json!({}), "complete-after=1h", 30, "101s Failed app=Error(143)"),
        (hook, "", 30, "106s Succeeded app=Completed(0)"),
    ] {
        let mut run = Run::new(&pod("Always", &container), simulation);
        run.until(100);
        run.delete(grace);
        let shown = run.until(300);
        assert_eq!(shown[0], "100s Running app=ready", "{container} {simulation}");
        assert_eq!(shown.last().unwrap(), wanted, "{container} {simulation}");
        assert!(run.lifecycle.is_over());
    }
}

#[tokio::test(start_paused = true)]
async fn sidecars_stop_after_the_app_containers() {
    let mut spec = pod("Never", &json!({"command": ["sleep", "10"]}));
    let sidecar = json!({"restartPolicy": "Always"});
    spec["initContainers"] = json!([named("logs", &sidecar), named("proxy", &sidecar)]);
    let mut run = Run::new(&spec, "");
    assert_eq!(
        run.until(60),
        [
            "0s Running logs=ready proxy=ready app=ready",
            "10s Running logs=ready proxy=ready app=Completed(0)",
            "11s Running logs=ready proxy=Completed(0) app=Completed(0)",
            "12s Succeeded logs=Completed(0) proxy=Completed(0) app=Completed(0)",
        ]
    );
    assert_eq!(run.condition("Initialized"), "True PodCompleted");
}

#[tokio::test(start_paused = true)]
async fn a_liveness_probe_that_fails_restarts_the_container() {
    let probe = json!({"livenessProbe": {
        "httpGet": {"port": 80}, "periodSeconds": 10, "failureThreshold": 2,
        "terminationGracePeriodSeconds": 4,
    }});
    let mut run = Run::new(&pod("OnFailure", &probe), "fail-liveness=15s,ignore-term");
    // It fails after 20 and 30 s; the grace period is that of the probe.
    assert_eq!(
        run.until(69),
        [
            "0s Running app=ready",
            "34s Running app=ready*1",
            "68s Running app=Error(137)*1",
            "69s Running app=CrashLoopBackOff*1",
        ]
    );
    let events: Vec<&str> = run.events[3..6].iter().map(String::as_str).collect();
    let unhealthy = "Warning Unhealthy spec.containers{app} Liveness probe failed: HTTP probe \
                     failed with statuscode: 503";
    let killing = "Normal Killing spec.containers{app} Container app failed liveness probe, will \
                   be restarted";
    assert_eq!(events, [unhealthy, unhealthy, killing]);
    let last = "Warning BackOff spec.containers{app} Back-off restarting failed container app in \
                pod one_default(1)";
    assert_eq!(run.events.last().unwrap(), last);
}

#[tokio::test(start_paused = true)]
async fn readiness_follows_its_probe() {
    let probe = json!({"readinessProbe": {
        "exec": {"command": ["check"]}, "initialDelaySeconds": 5, "periodSeconds": 5,
    }});
    let mut run = Run::new(&pod("Always", &probe), "unready-after=8s");
    assert_eq!(
        run.until(60),
        ["0s Running app=running", "5s Running app=ready", "20s Running app=running"]
    );
    assert!(run.events.iter().any(|event| event.contains("Unhealthy")));
    let mut run = Run::new(&pod("Always", &probe), "never-ready");
    assert_eq!(run.until(60), ["0s Running app=running"]);
    assert!(run.events.iter().any(|event| event.contains("Readiness probe failed")));
}

#[tokio::test(start_paused = true)]
async fn an_out_of_memory_kill_is_reported_as_such() {
    let mut run = Run::new(&pod("Never", &json!({})), "oom-kill-after=3s");
    assert_eq!(run.until(9).last().unwrap(), "3s Failed app=OOMKilled(137)");
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_deadline_is_stopped() {
    let mut spec = pod("Always", &json!({}));
    spec["activeDeadlineSeconds"] = json!(20);
    let mut run = Run::new(&spec, "");
    assert_eq!(run.until(60), ["0s Running app=ready", "21s Failed app=Completed(0)"]);
    let status = run.pod.status.as_ref().unwrap();
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    assert!(run.events.iter().any(|event| event.starts_with("Normal DeadlineExceeded")));
}

#[tokio::test(start_paused = true)]
async fn a_new_image_restarts_the_container_and_ephemeral_containers_start() {
    let mut run = Run::new(&pod("Never", &json!({})), "");
    run.until(10);
    let spec = run.pod.spec.as_mut().unwrap();
    spec.containers[0].image = Some("app:2".to_owned());
    let debugger = json!([{"name": "debug", "image": "busybox", "command": ["sleep", "5"]}]);
    spec.ephemeral_containers = Some(serde_json::from_value(debugger).unwrap());
    assert_eq!(
        run.until(60),
        [
            "10s Running app=ready debug=ready",
            "11s Running app=ready*1 debug=ready",
            "15s Running app=ready*1 debug=Completed(0)",
        ]
    );
    let message = "Container app definition changed, will be restarted";
    assert!(run.events.iter().any(|event| event.ends_with(message)), "{:?}", run.events);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_restored_from_its_status_after_a_restart() {
    let mut spec = pod("Always", &json!({}));
    spec["initContainers"] = json!([named("migrate", &json!({"command": ["sleep", "5"]}))]);
    spec["containers"] = json!([app(&json!({})), named("bad", &json!({}))]);
    let mut run = Run::new(&spec, "bad:crash-loop");
    run.until(40);
    assert_eq!(run.shown(), "Running migrate=Completed(0) app=ready bad=CrashLoopBackOff*3");
    let mut other = Lifecycle::new("1", "node", None, run.started + run.now);
    other.restore(&run.pod, run.started + run.now, &run.wall());
    run.lifecycle = other;
    run.simulation = PodSimulation::default();
    assert_eq!(run.until(41), ["40s Running migrate=Completed(0) app=ready bad=ready*4"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_never_ran_has_failed_once_it_is_deleted() {
    let mut run = Run::new(&pod("Always", &json!({})), "image-pull-error");
    run.until(5);
    run.delete(30);
    assert_eq!(run.until(60), ["5s Failed app=ContainerStatusUnknown(137)"]);
    assert!(run.lifecycle.is_over());
}
