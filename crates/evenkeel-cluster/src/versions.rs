//! Fields that are optional in the types of one Kubernetes version and required in those of another.
//!
//! The binary chooses the version of `k8s_openapi`, so the controllers compile with each. Reading
//! and writing such fields through `From`, which covers both `T` and `Option<T>`, needs no `cfg`.

use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec, ReplicaSet,
    ReplicaSetSpec, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;

/// A workload, whose `spec` is required since 1.37.
pub(crate) trait Workload {
    /// The type of `spec`.
    type Spec;

    fn spec(&self) -> Option<&Self::Spec>;
}

impl Workload for DaemonSet {
    type Spec = DaemonSetSpec;

    fn spec(&self) -> Option<&DaemonSetSpec> {
        Option::from(&self.spec)
    }
}

impl Workload for Deployment {
    type Spec = DeploymentSpec;

    fn spec(&self) -> Option<&DeploymentSpec> {
        Option::from(&self.spec)
    }
}

impl Workload for ReplicaSet {
    type Spec = ReplicaSetSpec;

    fn spec(&self) -> Option<&ReplicaSetSpec> {
        Option::from(&self.spec)
    }
}

impl Workload for StatefulSet {
    type Spec = StatefulSetSpec;

    fn spec(&self) -> Option<&StatefulSetSpec> {
        Option::from(&self.spec)
    }
}

/// Returns the data of a revision, which is required since 1.37.
pub(crate) fn revision_data(revision: &ControllerRevision) -> Option<&RawExtension> {
    Option::from(&revision.data)
}

/// Returns the number of a revision, which is optional since 1.37.
pub(crate) fn revision_number(revision: &ControllerRevision) -> i64 {
    Option::from(revision.revision).unwrap_or(0)
}

/// Returns the type or the status of a workload's condition; both are optional since 1.37.
pub(crate) fn text<'a>(field: impl Into<Option<&'a String>>) -> &'a str {
    field.into().map_or("", String::as_str)
}

/// Returns `value` as a field of type `T` or `Option<T>`.
pub(crate) fn field<T, F: From<T>>(value: T) -> F {
    F::from(value)
}
