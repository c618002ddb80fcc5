//! Correct operators: no oracle may be violated. `cargo xtask campaign simulations` runs more plans of
//! them and of the examples that have a simulation.

mod database;

mod training;

mod certificate;

mod restart;

pub(crate) mod bucket;

use evenkeel::prelude::*;
use evenkeel_sim::Plan;
use serde_json::{Value, json};

use crate::by_hand::{Bug, simulate_by_hand};
use crate::operators::{App, FINALIZER, part, parts, simulate};

/// Applies as many parts as declared and deletes the others.
struct Parts;

impl Reconciler for Parts {
    type Object = App;

    async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
        let Some(app) = cx.object() else { return Ok(Action::done()) };
        for number in 0..app.spec.size {
            cx.apply_owned(part(&app, number)).force().await?;
        }
        for (number, map) in parts(cx, &app).await? {
            if number >= app.spec.size {
                cx.client().delete(&*map).await?;
            }
        }
        let ready = Condition::new("Ready", true, "AllParts", "all parts exist");
        cx.status(&app).condition(ready).write().await?;
        Ok(Action::done())
    }
}

/// Like [`Parts`], with a finalizer.
struct Finalized;

impl Reconciler for Finalized {
    type Object = App;

    async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
        let clean_up = async |_| Ok(());
        let Some(_) = cx.finalize(FINALIZER, clean_up).await? else { return Ok(Action::done()) };
        Parts.reconcile(cx).await
    }
}

#[test]
fn parts_survives_faults() {
    simulate("parts", || Parts).expect(expected).check();
}

#[test]
fn finalized_survives_faults() {
    let finalizer = |app: &App, objects: &[&Value]| {
        let mut app = expected(app, objects).swap_remove(0);
        app["metadata"]["finalizers"] = json!([FINALIZER]);
        [app]
    };
    let simulation = simulate("finalized", || Finalized).expect(expected).expect(finalizer);
    simulation.invariant("there are no other parts", has_no_other_parts).check();
}

/// Checks that there are not more parts than declared.
fn has_no_other_parts(objects: &[&Value]) -> Result<(), String> {
    let of =
        |kind: &'static str| objects.iter().copied().filter(move |object| object["kind"] == kind);
    let declared: i64 = of("App").filter_map(|app| app["spec"]["size"].as_i64()).sum();
    let is_part = |map: &&Value| map["metadata"]["ownerReferences"][0]["kind"] == "App";
    match of("ConfigMap").filter(is_part).count() as i64 {
        parts if parts <= declared => Ok(()),
        parts => Err(format!("there are {parts} ConfigMaps for {declared} parts")),
    }
}

/// Returns an App with its status, and its parts.
fn expected(app: &App, _: &[&Value]) -> Vec<Value> {
    let (name, text) = (app.name_any(), &app.spec.text);
    let part = |number| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text},
            "metadata": {"name": format!("{name}-{number}"), "labels": {"app": name}}})
    };
    let itself = json!({"apiVersion": "sim.test/v1", "kind": "App", "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    [itself].into_iter().chain((0..app.spec.size).map(part)).collect()
}

/// The operator with whose bugs `planted/protocol.rs` is about, without them.
#[test]
fn by_hand_survives_faults() {
    simulate_by_hand("by-hand", Bug::None, false).check();
}

/// The same, which deletes the parts of absent Apps by itself.
#[test]
fn by_hand_collector_survives_faults() {
    simulate_by_hand("by-hand-collector", Bug::None, true).check();
}

/// The operator creates again what it has deleted, and deletes it when its cache is current.
#[test]
fn part_that_returns_with_an_older_state_may_be_deleted_again() {
    let plan = r#"{"faults": [{"at": {"verb": "delete", "resource": "configmaps",
        "object": "default/a-1", "nth": 1}, "effect": "staleRestart"}]}"#;
    let plan: Plan = serde_json::from_str(plan).unwrap();
    let report = simulate("parts", || Parts).replay([plan]).explore();
    assert!(report.finding.is_none(), "{report}");
    assert_eq!((report.coverage.run, report.coverage.missed), (1, 0), "{}", report.coverage);
}
