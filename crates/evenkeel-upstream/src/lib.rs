//! Builds, finds and runs upstream Kubernetes executables of one pinned release.
//!
//! [`locate`] finds executables in the environment or the cache and rejects those that are not
//! upstream's. [`build`](build()) builds them with a Go toolchain. [`Cluster::start`] runs etcd and
//! kube-apiserver on loopback with the flags of envtest, test certificates and an admin kubeconfig.
//! [`client`] is the HTTPS client that comparisons use, and [`report_skipped`] counts the tests that
//! cannot run without the executables. No upstream code is part of this source tree.

pub mod client;

mod cluster;

mod etcd;

mod guard;

mod identify;

mod locate;

mod build;

mod skipped;

pub use build::{BuildError, ETCD_VERSION, KUBERNETES_VERSION, build};
pub use cluster::{Cluster, StartError, UpstreamOptions};
pub use etcd::EtcdError;
pub use guard::{ProcessGuard, SpawnError};
pub use locate::{Binaries, LocateError, Program, cache_dir, locate, locate_any_release};
pub use skipped::report_skipped;
