//! Real Kubernetes on tap: the executables of one pinned release, found or built, started on
//! loopback and ended without a trace.
//!
//! [`locate`] finds executables in the environment or the cache and refuses impostors, [`build`] builds them with a Go
//! toolchain, and [`Cluster::start`] runs etcd and kube-apiserver with the flags of envtest, test
//! certificates and an administrator's kubeconfig. [`client`] is the plain HTTPS client that
//! comparisons are made with. Nothing of upstream's is part of this source tree.

pub mod client;

mod cluster;

mod etcd;

mod guard;

mod identify;

mod locate;

mod build;

pub use build::{BuildError, ETCD_VERSION, KUBERNETES_VERSION, build};
pub use cluster::{Cluster, Options, StartError};
pub use etcd::EtcdError;
pub use guard::{ProcessGuard, SpawnError};
pub use locate::{Binaries, LocateError, Program, cache_dir, locate, locate_any_release};
