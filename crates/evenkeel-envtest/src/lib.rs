//! Drop-in `kube-apiserver` and `etcd` executables for envtest.
//!
//! Kubebuilder and controller-runtime projects start these two from `KUBEBUILDER_ASSETS`, with the
//! flags of the upstream executables. [`apiserver`] turns those flags into a running Evenkeel
//! server. [`etcd`] only serves health checks, because Evenkeel has its own storage. Upstream flags
//! without an effect here are accepted and logged to stderr, so that no test suite needs changes.

pub mod apiserver;
pub mod etcd;
pub mod flags;
pub mod process;
pub mod static_responses;
