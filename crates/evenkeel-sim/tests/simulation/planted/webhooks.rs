//! Webhooks that fail closed and block the operator itself.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{BugClass, Simulation};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::PatchParams;
use parking_lot::Mutex;
use serde_json::json;

use super::Planted;
use crate::operators::{App, part, simulate_with};

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "matches-its-own-pods",
        rows: &[48],
        after: "slurm-operator #189, gatekeeper #3183, cozystack #3125",
        class: BugClass::WebhookDeadlock,
        prevented_by: "webhooks of the runtime do not match objects in the operator's own namespace",
        simulation: matches_its_own_pods,
    },
    Planted {
        name: "needs-what-it-blocks",
        rows: &[48],
        after: "cloud-api-adaptor #305",
        class: BugClass::WebhookDeadlock,
        prevented_by: "nothing; `object_selector(..)` can leave out the operator's own objects",
        simulation: needs_what_it_blocks,
    },
];

async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
    cx.apply_owned(part(&app, 0)).force().await?;
    Ok(Action::done())
}

/// The webhook reviews all pods, also those that serve it: when none of them runs, none can start.
fn matches_its_own_pods() -> Simulation {
    fn validate(pod: &Pod, _: &AdmissionRequest) -> Result<Warnings> {
        let containers = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
        (containers < 10).then(Warnings::new).ok_or_else(|| "too many containers".into())
    }
    simulate_with("matches-its-own-pods", |manager| {
        manager.webhook::<Pod>().validator(validate).in_own_namespace().register()?;
        manager.controller(reconciler_fn(reconcile)).owns::<ConfigMap>().register().map(drop)
    })
}

/// The webhook for ConfigMaps rejects everything until its policy is loaded. The policy is a ConfigMap,
/// too, and loading it changes it: this succeeds the first time only, when there is none yet.
fn needs_what_it_blocks() -> Simulation {
    #[derive(Default)]
    struct Policy {
        /// Whether one existed at the start; `None` while that is not known.
        existed: Mutex<Option<bool>>,
        loaded: AtomicBool,
    }
    async fn load(maps: &Api<ConfigMap>, policy: &Policy) -> Result<(), kube::Error> {
        let existed = maps.get_opt("policy").await?.is_some();
        *policy.existed.lock() = Some(existed);
        let loaded = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "policy"}, "data": {"mode": "strict"}});
        let params = PatchParams::apply("policy").force();
        maps.patch("policy", &params, &Patch::Apply(loaded)).await?;
        policy.loaded.store(true, Ordering::Relaxed);
        Ok(())
    }
    simulate_with("needs-what-it-blocks", |manager| {
        let policy = Arc::new(Policy::default());
        let of_webhook = policy.clone();
        let validate = move |_: &ConfigMap, _: &AdmissionRequest| {
            let is_new = *of_webhook.existed.lock() == Some(false);
            match is_new || of_webhook.loaded.load(Ordering::Relaxed) {
                true => Ok(Warnings::new()),
                false => Err(evenkeel::Error::from("the policy is not loaded yet")),
            }
        };
        manager.webhook::<ConfigMap>().validator(validate).register()?;
        let maps = Api::<ConfigMap>::namespaced(manager.client().kube().clone(), "default");
        manager.spawn("policy", |stop| async move {
            while load(&maps, &policy).await.is_err() {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            stop.requested().await;
            Ok(())
        })?;
        manager.controller(reconciler_fn(reconcile)).owns::<ConfigMap>().register().map(drop)
    })
}
