//! Two writes that must happen together.

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{BugClass, Oracle, Simulation};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, PodSpec};
use kube::Api;
use kube::api::DeleteParams;

use super::{OTHER, Planted, generated, raw};
use crate::operators::{App, part, simulate, simulate_with};

const EACH_CHILD: &str = "nothing; `cx.apply_owned(..)` of each child makes guards unnecessary";

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "guard-on-the-first-write",
        rows: &[10],
        after: "rabbitmq cluster-operator #782",
        class: BugClass::CrashBetweenWrites,
        prevented_by: EACH_CHILD,
        simulation: guard_on_the_first_write,
    },
    Planted {
        name: "removal-not-counted",
        rows: &[11],
        after: "casskop #370",
        class: BugClass::CrashBetweenWrites,
        prevented_by: "`cx.client().delete(..)` succeeds if the object is gone",
        simulation: removal_not_counted,
    },
    Planted {
        name: "phase-before-its-work",
        rows: &[12],
        after: "Percona K8SPXC-896, K8SPSMDB-578",
        class: BugClass::CrashBetweenWrites,
        prevented_by: EACH_CHILD,
        simulation: phase_before_its_work,
    },
    Planted {
        name: "pod-not-restarted",
        rows: &[13],
        after: "nifikop #49",
        class: BugClass::CrashBetweenWrites,
        prevented_by: EACH_CHILD,
        simulation: pod_not_restarted,
    },
    Planted {
        name: "counter-after-create",
        rows: &[4],
        after: "k0smotron #1534",
        class: BugClass::CrashBetweenWrites,
        prevented_by: "`cx.apply_owned(..)` with a name derived from the owner",
        simulation: counter_after_create,
    },
];

/// The guard covers only the first of two writes.
fn guard_on_the_first_write() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let first = cx.client().get::<ConfigMap>(&cx.key().sibling("a-0")).await?;
        if first.is_some_and(|map| map.data == part(&app, 0).data) {
            return Ok(Action::done());
        }
        cx.apply_owned(part(&app, 0)).force().await?;
        cx.apply_owned(part(&app, 1)).force().await?;
        Ok(Action::done())
    }
    simulate("guard-on-the-first-write", || reconciler_fn(reconcile))
}

/// A removal that was not counted is tried again, and fails for good.
fn removal_not_counted() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let count = app.status.as_ref().map_or(0, |status| status.count);
        let next = match count.cmp(&app.spec.size) {
            std::cmp::Ordering::Less => {
                cx.apply_owned(part(&app, count)).force().await?;
                count + 1
            }
            std::cmp::Ordering::Equal => return Ok(Action::done()),
            std::cmp::Ordering::Greater => {
                let name = part(&app, count - 1).name_any();
                let deleted = raw(&cx).delete(&name, &DeleteParams::default()).await;
                deleted.map_err(evenkeel::terminal)?;
                count - 1
            }
        };
        cx.status(&app).set(|status| status.count = next).write().await?;
        Ok(Action::done())
    }
    simulate("removal-not-counted", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER)
}

/// The phase is written before its work, which a crash then prevents for good.
fn phase_before_its_work() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        if app.status.as_ref().is_some_and(|status| status.phase.is_some()) {
            return Ok(Action::done());
        }
        let phase = Some("Initialized".to_owned());
        cx.status(&app).set(|status| status.phase = phase.clone()).write().await?;
        cx.apply_owned(part(&app, 0)).force().await?;
        Ok(Action::done())
    }
    simulate("phase-before-its-work", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER)
}

/// The pod is deleted after its configuration was changed, so that it loads it: the state at the end
/// is right without that, too.
fn pod_not_restarted() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let pods = Api::<Pod>::namespaced(cx.client().kube().clone(), "default");
        let found = cx.client().get::<ConfigMap>(&cx.key().sibling("a-0")).await?;
        if found.as_ref().is_none_or(|found| found.data != part(&app, 0).data) {
            cx.apply_owned(part(&app, 0)).force().await?;
            if found.is_some() {
                pods.delete("a", &DeleteParams::default().grace_period(0)).await?;
            }
        }
        let container = Container {
            name: "main".to_owned(),
            image: Some("database:1".to_owned()),
            ..Container::default()
        };
        let mut pod = Pod::default();
        pod.metadata.name = Some("a".to_owned());
        pod.spec = Some(PodSpec { containers: vec![container], ..PodSpec::default() });
        cx.apply_owned(pod).force().await?;
        Ok(Action::done())
    }
    simulate_with("pod-not-restarted", |manager| {
        let controller = manager.controller(reconciler_fn(reconcile));
        controller.owns::<ConfigMap>().owns::<Pod>().register().map(drop)
    })
}

/// Children with generated names are counted in the status.
fn counter_after_create() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let count = app.status.as_ref().map_or(0, |status| status.count);
        if count < app.spec.size {
            cx.client().create(&generated(&app, "a")).await?;
            cx.status(&app).set(|status| status.count = count + 1).write().await?;
        }
        Ok(Action::done())
    }
    simulate("counter-after-create", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER)
}
