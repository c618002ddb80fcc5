//! Probes: not asked on a simulated node, only waited for as long as a kubelet would.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, Probe};

/// How long after its containers began a pod is ready at the earliest: once the slowest of them has
/// passed its startup probe and then its readiness probe.
pub(super) fn first_ready(pod: &Pod) -> Duration {
    let spec = pod.spec.as_ref();
    let own = spec.into_iter().flat_map(|spec| &spec.containers);
    let inits = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = inits.filter(|init| init.restart_policy.as_deref() == Some("Always"));
    own.chain(sidecars).map(container).max().unwrap_or_default()
}

/// Both delays are counted from the start of the container; a readiness probe is asked only once the
/// startup probe has passed.
fn container(container: &Container) -> Duration {
    let startup = container.startup_probe.as_ref().map_or(Duration::ZERO, passes);
    let readiness = container.readiness_probe.as_ref();
    let asked = startup.max(readiness.map_or(Duration::ZERO, delay));
    asked + readiness.map_or(Duration::ZERO, repeats)
}

/// When a probe that succeeds each time has passed.
fn passes(probe: &Probe) -> Duration {
    delay(probe) + repeats(probe)
}

fn delay(probe: &Probe) -> Duration {
    seconds(probe.initial_delay_seconds, 0)
}

/// How long it takes to ask as often as has to go well.
fn repeats(probe: &Probe) -> Duration {
    let times = u32::try_from(probe.success_threshold.unwrap_or(1)).unwrap_or(1);
    seconds(probe.period_seconds, 10) * times.saturating_sub(1)
}

fn seconds(number: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(number.map_or(default, |number| u64::try_from(number).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn after(spec: &Value) -> u64 {
        let pod = serde_json::from_value(json!({ "spec": spec })).unwrap();
        first_ready(&pod).as_secs()
    }

    #[test]
    fn the_slowest_container_decides_when_a_pod_is_ready() {
        let app = |probes: Value| {
            let mut app = json!({"name": "app"});
            app.as_object_mut().unwrap().extend(probes.as_object().unwrap().clone());
            app
        };
        let readiness = |delay: i32| app(json!({"readinessProbe": {"initialDelaySeconds": delay}}));
        assert_eq!(after(&json!({"containers": [app(json!({}))]})), 0);
        assert_eq!(after(&json!({"containers": [readiness(5), readiness(8)]})), 8);
        let both = |startup: i32, times: i32| {
            app(json!({
                "startupProbe": {"initialDelaySeconds": startup},
                "readinessProbe": {
                    "initialDelaySeconds": 5, "periodSeconds": 2, "successThreshold": times,
                },
            }))
        };
        assert_eq!(after(&json!({"containers": [both(3, 1)]})), 5);
        assert_eq!(after(&json!({"containers": [both(9, 1)]})), 9);
        assert_eq!(after(&json!({"containers": [both(9, 4)]})), 15);
        let mut sidecar = readiness(20);
        let pod = |init: &Value| json!({"initContainers": [init], "containers": [readiness(1)]});
        assert_eq!(after(&pod(&sidecar)), 1, "one that ends is not waited for");
        sidecar["restartPolicy"] = json!("Always");
        assert_eq!(after(&pod(&sidecar)), 20);
    }
}
