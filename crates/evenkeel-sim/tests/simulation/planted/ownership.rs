//! Owner references and finalizers.

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{BugClass, Simulation};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};

use super::{Planted, owned, raw};
use crate::operators::{App, FINALIZER, part, simulate, simulate_one};

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "owner-in-another-namespace",
        rows: &[26],
        after: "kubernetes #65200, koperator #186, crossplane #895, faros #143",
        class: BugClass::Ownership,
        prevented_by: "`set_controller_reference` rejects an owner in another namespace",
        simulation: owner_in_another_namespace,
    },
    Planted {
        name: "namespace-stuck",
        rows: &[28],
        after: "operator-sdk #3967, opensearch-operator #976",
        class: BugClass::Ownership,
        prevented_by: "nothing; `cx.finalize(..)` retries a cleanup for ever",
        simulation: namespace_stuck,
    },
    Planted {
        name: "cleanup-not-repeatable",
        rows: &[28],
        after: "a cleanup that needs what it deletes",
        class: BugClass::Ownership,
        prevented_by: "`cx.client().delete(..)` succeeds if the object is gone",
        simulation: cleanup_not_repeatable,
    },
    Planted {
        name: "child-without-owner",
        rows: &[],
        after: "a child that is applied without an owner",
        class: BugClass::Ownership,
        prevented_by: "`cx.apply_owned(..)`",
        simulation: child_without_owner,
    },
    Planted {
        name: TAKES_WHAT_EXISTS,
        rows: &[],
        after: "an apply that takes an object of another owner, which is then deleted with the new one",
        class: BugClass::Ownership,
        prevented_by: "`cx.apply_owned(..)` changes no object that the owner does not control",
        simulation: takes_what_exists,
    },
];

/// The only one that is simulated with names that are taken.
pub(super) const TAKES_WHAT_EXISTS: &str = "takes-what-exists";

/// The child is applied with its owner, whatever exists under its name.
fn takes_what_exists() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let child = owned(&app, 0);
        let force = PatchParams::apply("takes-what-exists").force();
        raw(&cx).patch(&child.name_any(), &force, &Patch::Apply(&child)).await?;
        Ok(Action::done())
    }
    simulate_one(TAKES_WHAT_EXISTS, |manager| {
        let controller = manager.controller(reconciler_fn(reconcile));
        controller.owns::<ConfigMap>().register().map(drop)
    })
}

/// The child is in another namespace than its owner. The garbage collector looks for the owner in the
/// namespace of the child.
fn owner_in_another_namespace() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let maps = Api::<ConfigMap>::namespaced(cx.client().kube().clone(), "shared");
        let mut map = part(&app, 0);
        map.metadata.namespace = Some("shared".to_owned());
        map.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "sim.test/v1".to_owned(),
            kind: "App".to_owned(),
            name: app.name_any(),
            uid: app.uid().unwrap_or_default(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        if maps.get_opt("a-0").await?.is_none() {
            maps.create(&PostParams::default(), &map).await?;
        }
        Ok(Action::done())
    }
    simulate("owner-in-another-namespace", || reconciler_fn(reconcile))
        .existing("{apiVersion: v1, kind: Namespace, metadata: {name: shared}}")
}

/// The cleanup writes a last backup, which a namespace that is being deleted does not accept.
fn namespace_stuck() -> Simulation {
    struct Backup;
    impl Reconciler for Backup {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let back_up = async |app: Arc<App>| {
                let mut backup = part(&app, 0);
                backup.metadata.name = Some("backup".to_owned());
                Ok(cx.apply_owned(backup).force().await.map(drop)?)
            };
            let Some(app) = cx.finalize(FINALIZER, back_up).await? else {
                return Ok(Action::done());
            };
            cx.apply_owned(part(&app, 0)).force().await?;
            Ok(Action::done())
        }
    }
    evenkeel_sim::operator("namespace-stuck", |manager| {
        manager.controller(Backup).owns::<ConfigMap>().register().map(drop)
    })
    .install::<App>()
    .sample("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
    .sample(
        "{apiVersion: sim.test/v1, kind: App, metadata: {name: a, namespace: team}, \
         spec: {size: 1, text: x}}",
    )
    .delete::<Namespace>("team")
}

/// The cleanup needs a child that it has deleted before.
fn cleanup_not_repeatable() -> Simulation {
    struct Cleanup;
    impl Reconciler for Cleanup {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let clean_up = async |_| {
                let key = cx.key().sibling("a-0");
                let Some(map) = cx.client().live().get::<ConfigMap>(&key).await? else {
                    return Err("the part is gone".into());
                };
                Ok(cx.client().delete(&map).await.map(drop)?)
            };
            let Some(app) = cx.finalize(FINALIZER, clean_up).await? else {
                return Ok(Action::done());
            };
            cx.apply_owned(part(&app, 0)).force().await?;
            Ok(Action::done())
        }
    }
    simulate_one("cleanup-not-repeatable", |manager| {
        manager.controller(Cleanup).owns::<ConfigMap>().register().map(drop)
    })
}

/// A child without an owner reference.
fn child_without_owner() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.client().apply(&part(&app, 0)).force().await?;
        Ok(Action::done())
    }
    simulate("child-without-owner", || reconciler_fn(reconcile))
}
