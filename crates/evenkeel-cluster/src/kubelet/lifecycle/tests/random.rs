//! Random pods, simulations and interruptions: invariants of every pod at any time.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Run, named};

/// A seeded random number generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

fn container(numbers: &mut Numbers, name: &str) -> Value {
    let mut container = named(name, &json!({}));
    match numbers.below(5) {
        0 => container["command"] = json!(["sleep", "4"]),
        1 => container["command"] = json!(["sh", "-c", "sleep 2; exit 1"]),
        2 => container["command"] = json!(["work"]),
        _ => {}
    }
    let probe = json!({"httpGet": {"port": 1}, "periodSeconds": 3, "initialDelaySeconds": 1});
    for name in ["startupProbe", "readinessProbe", "livenessProbe"] {
        if numbers.below(3) == 0 {
            container[name] = probe.clone();
        }
    }
    if numbers.below(4) == 0 {
        container["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 2}}});
    }
    container
}

fn simulation(numbers: &mut Numbers) -> String {
    let parts = [
        "",
        "crash-loop",
        "never-ready",
        "image-pull-error",
        "fail-startup",
        "fail-liveness=5s",
        "complete-after=3s",
        "fail-after=3s",
        "ignore-term",
        "stop-after=3s",
        "unready-after=2s",
    ];
    let names = ["", "", "init:", "side:", "app:", "other:"];
    let parts: Vec<String> = (0..numbers.below(4))
        .map(|_| (numbers.one_of(&names), numbers.one_of(&parts)))
        .filter(|(_, part)| !part.is_empty())
        .map(|(name, part)| format!("{name}{part}"))
        .collect();
    parts.join(",")
}

fn spec(numbers: &mut Numbers) -> Value {
    let mut spec = json!({
        "restartPolicy": numbers.one_of(&["Always", "OnFailure", "Never"]),
        "containers": [container(numbers, "app"), container(numbers, "other")],
        "terminationGracePeriodSeconds": 10,
    });
    let mut inits = Vec::new();
    if numbers.below(2) == 0 {
        inits.push(container(numbers, "init"));
    }
    if numbers.below(2) == 0 {
        let mut sidecar = container(numbers, "side");
        sidecar["restartPolicy"] = json!("Always");
        inits.push(sidecar);
    }
    spec["initContainers"] = json!(inits);
    if numbers.below(4) == 0 {
        spec["activeDeadlineSeconds"] = json!(40);
    }
    spec
}

/// Checks the invariants of every pod. Returns the restarts of its containers.
fn check(run: &Run, before: &[i32], phase: &str) -> Vec<i32> {
    let status = run.pod.status.as_ref().unwrap();
    let inits = status.init_container_statuses.as_deref().unwrap_or_default();
    let apps = status.container_statuses.as_deref().unwrap();
    let ran = |name: &str| apps.iter().any(|app| app.name == name && app.container_id.is_some());
    if ran("app") || ran("other") {
        for init in inits.iter().filter(|init| init.name == "init") {
            let ended = init.state.as_ref().unwrap().terminated.as_ref();
            assert_eq!(ended.map(|ended| ended.exit_code), Some(0), "{}", run.shown());
        }
    }
    if matches!(phase, "Succeeded" | "Failed") {
        assert_eq!(status.phase.as_deref(), Some(phase), "a terminal phase is final");
    }
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        assert!(run.lifecycle.is_over(), "{}", run.shown());
        assert!(run.condition("Ready").starts_with("False"));
    }
    let restarts: Vec<i32> = inits.iter().chain(apps).map(|it| it.restart_count).collect();
    assert!(restarts.iter().zip(before).all(|(now, before)| now >= before));
    restarts
}

#[tokio::test(start_paused = true)]
async fn random_pods_keep_their_invariants_and_stop_when_deleted() {
    for seed in 0..600 {
        let mut numbers = Numbers(seed);
        let spec = spec(&mut numbers);
        let mut run = Run::new(&spec, &simulation(&mut numbers));
        run.delays.start = Duration::from_secs(numbers.below(3) as u64);
        let (mut restarts, mut phase) = (Vec::new(), String::new());
        let deleted = 20 + numbers.below(150) as u64;
        for second in 0..deleted + 40 {
            if second % 30 == 29 && numbers.below(2) == 0 {
                run.simulation = simulation(&mut numbers).parse().unwrap();
            }
            if second == deleted {
                run.delete(10);
            }
            let steps = run.until(second).len();
            assert!(steps < 20, "seed {seed}: {steps} changes at once");
            restarts = check(&run, &restarts, &phase);
            phase = run.pod.status.as_ref().unwrap().phase.clone().unwrap();
        }
        assert!(run.lifecycle.is_over(), "seed {seed}: {}", run.shown());
        assert!(matches!(phase.as_str(), "Succeeded" | "Failed"), "seed {seed}: {phase}");
        assert_eq!(run.due, None);
    }
}
