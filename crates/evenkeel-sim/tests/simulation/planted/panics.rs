//! Panics on valid objects.

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel::webhook::{AdmissionRequest, Warnings};
use evenkeel_sim::{BugClass, Simulation};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::Planted;
use crate::operators::{App, part, simulate, simulate_with};

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "panic-on-a-valid-object",
        rows: &[40],
        after: "controller-runtime #797, kairos #4835",
        class: BugClass::Panic,
        prevented_by: "a panic is an error of its object; the process continues",
        simulation: panic_on_a_valid_object,
    },
    Planted {
        name: "panic-in-the-webhook",
        rows: &[41],
        after: "cockroach-operator (Acto)",
        class: BugClass::Panic,
        prevented_by: "a panic of a webhook is a response with an error",
        simulation: panic_in_the_webhook,
    },
];

/// An index out of bounds for a size that the schema allows.
fn panic_on_a_valid_object() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let weights = [1, 2, 3];
        let weight = weights[usize::try_from(app.spec.size).unwrap_or_default()];
        let mut map = part(&app, 0);
        map.data = Some([("weight".to_owned(), weight.to_string())].into());
        cx.apply_owned(map).force().await?;
        Ok(Action::done())
    }
    simulate("panic-on-a-valid-object", || reconciler_fn(reconcile))
}

/// The same index in the validating webhook: an object that is stored already cannot be repaired.
fn panic_in_the_webhook() -> Simulation {
    fn validate(app: &App, _: &AdmissionRequest) -> Result<Warnings> {
        let (name, tag) = app.spec.text.split_at(app.spec.text.find(':').unwrap());
        assert!(!name.is_empty() && !tag.is_empty());
        Ok(Warnings::new())
    }
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.apply_owned(part(&app, 0)).force().await?;
        Ok(Action::done())
    }
    simulate_with("panic-in-the-webhook", |manager| {
        manager.webhook::<App>().validator(validate).register()?;
        manager.controller(reconciler_fn(reconcile)).owns::<ConfigMap>().register().map(drop)
    })
    .patch::<App>("a", json!({"spec": {"text": "image:1"}}))
}
