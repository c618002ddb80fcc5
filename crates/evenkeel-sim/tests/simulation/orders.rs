//! Every order of deliveries and reconciles, and worlds that are driven by hand.

use std::time::Duration;

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{Oracle, Simulation, Step};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::operators::{App, part};

/// Returns a simulation with one App that is created.
fn small<T>(
    name: &str,
    build: impl Fn(&Manager) -> Result<T, RegisterError> + Send + Sync + 'static,
) -> Simulation {
    evenkeel_sim::operator(name, build)
        .install::<App>()
        .sample(
            "{apiVersion: sim.test/v1, kind: App, metadata: {name: a}, spec: {size: 1, text: x}}",
        )
        .budget(Duration::from_secs(300))
}

async fn correct(app: Arc<App>, cx: Context<App>) -> Result<Action> {
    cx.apply_owned(part(&app, 0)).force().await?;
    Ok(Action::done())
}

#[test]
fn every_order_of_a_small_world_is_explored() {
    let report = small("small", |manager| {
        manager.controller(reconciler_fn(correct)).owns::<ConfigMap>().register()
    })
    .exhaustive()
    .explore();
    assert!(report.finding.is_none(), "{report}");
    let explored = report.coverage.exhaustive.clone().unwrap();
    assert!(explored.complete && explored.states > 0 && explored.runs > 4, "{report}");
}

/// Expects that a ServiceAccount is seen after the ConfigMap that was created before it.
async fn ordered(app: Arc<App>, cx: Context<App>) -> Result<Action> {
    let key = cx.key().sibling("a-0");
    let map = cx.client().get::<ConfigMap>(&key).await?;
    let account = cx.client().get::<ServiceAccount>(&key).await?;
    assert!(map.is_some() || account.is_none(), "an account without its ConfigMap");
    let (kube, params) = (cx.client().kube().clone(), PostParams::default());
    if map.is_none() {
        let mut map = part(&app, 0);
        evenkeel::owner::set_controller_reference(&*app, &mut map).map_err(evenkeel::terminal)?;
        let maps = Api::<ConfigMap>::namespaced(kube.clone(), "default");
        created(maps.create(&params, &map).await)?;
    }
    if account.is_none() {
        let mut account =
            ServiceAccount { metadata: part(&app, 0).metadata, ..ServiceAccount::default() };
        evenkeel::owner::set_controller_reference(&*app, &mut account)
            .map_err(evenkeel::terminal)?;
        let accounts = Api::<ServiceAccount>::namespaced(kube, "default");
        created(accounts.create(&params, &account).await)?;
    }
    Ok(Action::done())
}

/// An object that exists already is not in the cache yet.
fn created<K>(result: Result<K, kube::Error>) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

fn build(manager: &Manager) -> Result<(), RegisterError> {
    let controller = manager.controller(reconciler_fn(ordered));
    controller.owns::<ConfigMap>().owns::<ServiceAccount>().register().map(drop)
}

/// No fault is needed: it is the order of deliveries.
#[test]
fn bug_that_only_another_order_shows() {
    let report = small("order", build).exhaustive().explore();
    let finding = report.finding.as_ref().unwrap();
    assert_eq!(finding.violation.oracle, Oracle::Panics, "{report}");
    assert!(finding.plan.schedule.is_some() && finding.plan.faults.is_empty(), "{report}");
}

#[test]
fn test_holds_delivers_and_reconciles() {
    let mut world = small("by-hand", build).world();
    world.hold::<ConfigMap>();
    world.create(
        "{apiVersion: sim.test/v1, kind: App, metadata: {name: a}, spec: {size: 1, text: x}}",
    );
    assert!(world.get::<ConfigMap>("a-0").is_none());
    assert!(world.reconcile_next().is_some());
    assert!(world.get::<ConfigMap>("a-0").is_some());
    // The account arrives first.
    let record = world.reconcile_next().unwrap();
    assert!(record.contains("an account without its ConfigMap"), "{record}");
    assert_eq!(world.deliver_next::<ConfigMap>().as_deref(), Some("added \"a-0\""));
    assert_eq!(world.deliver_next::<ConfigMap>(), None);
    world.patch::<App>("a", json!({"spec": {"text": "y"}}));
    world.flush();
    assert_eq!(world.reconcile_next(), None);
    world.restart();
    world.flush();
    world.delete::<App>("a");
    world.flush();
    assert!(world.get::<ConfigMap>("a-0").is_none());
    assert!(world.trace().iter().any(|event| event.text == "deleted configmaps default/a-0"));
}

/// The previous version names its child differently, and the current one does not delete it.
#[test]
fn child_of_the_previous_version_that_is_forgotten() {
    async fn previous(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.apply_owned(part(&app, 7)).force().await?;
        Ok(Action::done())
    }
    async fn current(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        if let Some(old) = cx.client().get::<ConfigMap>(&cx.key().sibling("a-7")).await? {
            cx.client().delete(&*old).await?;
        }
        correct(app, cx).await
    }
    let report = |with_cleanup: bool| {
        let simulation = small("upgrade", move |manager| match with_cleanup {
            true => manager.controller(reconciler_fn(current)).owns::<ConfigMap>().register(),
            false => manager.controller(reconciler_fn(correct)).owns::<ConfigMap>().register(),
        });
        let simulation = simulation.previous(|manager| {
            manager.controller(reconciler_fn(previous)).owns::<ConfigMap>().register()
        });
        simulation.disable(Oracle::Leftovers, "the upgrade is what matters").explore()
    };
    let forgotten = report(false);
    let finding = forgotten.finding.as_ref().unwrap();
    assert_eq!(finding.violation.object, "configmaps default/a-7", "{forgotten}");
    assert!(finding.plan.workload.contains(&Step::Upgrade), "{forgotten}");
    let cleaned = report(true);
    assert!(cleaned.finding.is_none(), "{cleaned}");
}
