//! The Deployment controller: one ReplicaSet per pod template, scaled so that enough pods are
//! available at any time.
//!
//! A reconcile takes one step (scales the new ReplicaSet up or old ones down) and writes the
//! status. The resulting status change of a ReplicaSet triggers the next step. The new ReplicaSet
//! is determined by the template alone, so a rollout can be resumed, rolled back or changed from
//! any state.

mod limits;

mod revisions;

mod rollout;

mod scaling;

mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use evenkeel::{Action, BoxError, Context, Manager, Reconciler, Result};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use crate::controller_ref;
use crate::options::ClusterOptions;
use crate::versions::Workload;

pub(crate) use limits::resolve;

pub(crate) const NAME: &str = "deployment-controller";

struct Deployments;

pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager
        .controller(Deployments)
        .named(NAME)
        .owns::<ReplicaSet>()
        .watch(controller_ref::watch_orphans::<ReplicaSet, Deployment>())
        .reads::<Pod>()
        .workers(4)
        .register()?;
    Ok(())
}

/// One Deployment and the ReplicaSets it controls.
struct Rollout<'a> {
    cx: &'a Context<Deployment>,
    deployment: Arc<Deployment>,
    spec: DeploymentSpec,
    /// The status to write. It is written once, at the end, so that no client sees an observed
    /// generation with the counts of the previous one.
    status: DeploymentStatus,
    sets: Vec<Arc<ReplicaSet>>,
}

impl Reconciler for Deployments {
    type Object = Deployment;

    async fn reconcile(&self, cx: &Context<Deployment>) -> Result<Action> {
        let Some(deployment) = cx.object() else { return Ok(Action::done()) };
        let Some(spec) = deployment.spec().cloned() else { return Ok(Action::done()) };
        let Some(selector) = controller_ref::selector(&spec.selector) else {
            return Ok(Action::done());
        };
        let sets = controller_ref::claimed::<_, ReplicaSet>(cx, &*deployment, &selector).await?;
        let status = deployment.status.clone().unwrap_or_default();
        Rollout { cx, deployment, spec, status, sets }.run().await
    }
}

impl Rollout<'_> {
    async fn run(mut self) -> Result<Action> {
        if self.deployment.metadata.deletion_timestamp.is_some() {
            let (new, _) = self.new_and_old();
            return self.update_status(new.as_deref()).await;
        }
        self.update_paused();
        if self.spec.paused == Some(true) || self.is_scaling() {
            return self.scale_only().await;
        }
        match self.strategy() {
            Strategy::Recreate => self.recreate().await,
            Strategy::Rolling => self.rolling_update().await,
        }
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn strategy(&self) -> Strategy {
        let named = self.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        match named {
            Some("Recreate") => Strategy::Recreate,
            _ => Strategy::Rolling,
        }
    }

    /// Stores a ReplicaSet that was written.
    fn store(&mut self, set: &Arc<ReplicaSet>) {
        match self.sets.iter_mut().find(|present| present.metadata.uid == set.metadata.uid) {
            Some(present) => *present = set.clone(),
            None => self.sets.push(set.clone()),
        }
    }

    async fn pods_of(&self, set: &ReplicaSet) -> Result<Vec<Arc<Pod>>> {
        let uid = evenkeel::Uid::new(set.metadata.uid.as_deref().unwrap_or_default());
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        Ok(self.cx.client().list::<Pod>().in_namespace(namespace).owned_by(&uid).await?)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Recreate,
    Rolling,
}
