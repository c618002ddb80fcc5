//! What all runs have in common before the operator starts: the CRDs and objects of the author, and
//! what the controllers of the control plane create at their start. It is created once, and the
//! server of each run starts with a copy.

use std::borrow::Cow;

use evenkeel::BoxError;
use evenkeel_apiserver::Snapshot;
use http::Method;

use super::{World, runtime};
use crate::plan::Plan;
use crate::simulation::Config;
use crate::user::User;
use crate::workload::ObjectRef;

/// Creates the CRDs and objects of the author.
pub(super) async fn create(config: &Config, user: &User) -> Result<(), BoxError> {
    for crd in &config.crds {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let sent = user.send(Method::POST, path, Some(("application/json", crd))).await;
        sent.map_err(|it| format!("cannot install a CRD: {} {}", it.code, it.message))?;
    }
    for object in &config.objects {
        let created = user.create(object).await;
        created.map_err(|it| format!("cannot create {}: {}", ObjectRef::of(object), it.message))?;
    }
    Ok(())
}

/// Returns what the server stores when the cluster is at rest without the operator; `None` if it never
/// is, or if runs are processes of their own. Controllers that the configuration disables are enabled
/// as in the whole cluster: they may be disabled because they have nothing to do later.
pub(crate) fn template(config: &Config, whole: &Config) -> Option<Snapshot> {
    if config.subprocess.is_some() {
        return None;
    }
    let mut config = config.clone();
    config.cluster.disabled_controllers = whole.cluster.disabled_controllers.clone();
    runtime().block_on(async {
        let mut world = World::start(Cow::Owned(config), &Plan::default()).await.ok()?;
        world.rest().await.ok()?;
        Some(world.cluster.server().snapshot())
    })
}
