//! The common interface of ReplicaSet and ReplicationController. As upstream, a
//! ReplicationController is handled as a ReplicaSet.

use std::borrow::Cow;

use evenkeel::Object;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{PodTemplateSpec, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde::Serialize;

use crate::controller_ref;
use crate::versions::{Workload, field};

/// A ReplicaSet or ReplicationController.
pub(super) trait ReplicaSetLike: Object {
    /// The name of its controller.
    const CONTROLLER: &'static str;
    /// The status type.
    type Status: From<ReplicaSetStatus> + Serialize + PartialEq + Send + Sync;

    fn selector(&self) -> Option<Selector>;
    fn template(&self) -> Option<&PodTemplateSpec>;
    fn replicas(&self) -> i32;
    fn min_ready_seconds(&self) -> i32;
    fn status(&self) -> Option<Cow<'_, ReplicaSetStatus>>;
}

impl ReplicaSetLike for ReplicaSet {
    const CONTROLLER: &'static str = super::NAME;
    type Status = ReplicaSetStatus;

    fn selector(&self) -> Option<Selector> {
        controller_ref::selector(&self.spec()?.selector)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec()?.template.as_ref()
    }

    fn replicas(&self) -> i32 {
        super::replicas(self)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn status(&self) -> Option<Cow<'_, ReplicaSetStatus>> {
        self.status.as_ref().map(Cow::Borrowed)
    }
}

impl ReplicaSetLike for ReplicationController {
    const CONTROLLER: &'static str = super::REPLICATION_CONTROLLER;
    type Status = ReplicationControllerStatus;

    fn selector(&self) -> Option<Selector> {
        let match_labels = self.spec.as_ref()?.selector.clone();
        controller_ref::selector(&LabelSelector { match_labels, match_expressions: None })
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn replicas(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn status(&self) -> Option<Cow<'_, ReplicaSetStatus>> {
        let status = self.status.as_ref()?;
        let conditions = status.conditions.as_ref().map(|conditions| {
            let condition = conditions.iter().cloned();
            condition
                .map(|condition| ReplicaSetCondition {
                    last_transition_time: condition.last_transition_time,
                    message: condition.message,
                    reason: condition.reason,
                    status: field(condition.status),
                    type_: field(condition.type_),
                })
                .collect()
        });
        Some(Cow::Owned(ReplicaSetStatus {
            available_replicas: status.available_replicas,
            conditions,
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
            terminating_replicas: None,
        }))
    }
}

/// The status of a ReplicationController: that of a ReplicaSet without `terminatingReplicas`.
#[derive(PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct ReplicationControllerStatus(ReplicaSetStatus);

impl From<ReplicaSetStatus> for ReplicationControllerStatus {
    fn from(status: ReplicaSetStatus) -> Self {
        Self(ReplicaSetStatus { terminating_replicas: None, ..status })
    }
}
