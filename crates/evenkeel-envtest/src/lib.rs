//! Executables that take the place of `kube-apiserver` and `etcd` in envtest.
//!
//! Every kubebuilder and controller-runtime project starts these two from `KUBEBUILDER_ASSETS`, with
//! flags of the real ones. [`apiserver`] turns those flags into a running Evenkeel server; [`etcd`]
//! only has to look alive, because Evenkeel keeps its own storage. Whatever flag of the real ones
//! has no meaning here is accepted with a line on stderr, so that no test suite needs changes.

pub mod apiserver;
pub mod etcd;
pub mod flags;
pub mod process;
pub mod static_responses;
