//! Leader election: of several replicas of an operator, one acts at a time.
//!
//! The replicas compete for a `Lease` object in the way of client-go's `leaderelection`, so replicas
//! written in Go and in Rust can share one lease. [`LeaderElection`] has the options;
//! [`ManagerBuilder::leader_election`](crate::manager::ManagerBuilder::leader_election) or the flag
//! `--leader-elect` enables it.
//!
//! - A **standby** is ready: its caches are filled and its queues have every object. It writes nothing
//!   and watches the lease, so it takes over within a second when the leader stops gracefully.
//! - A **leader** renews the lease every retry period. If it stops gracefully, its work ends first,
//!   then the lease is released. If it cannot renew the lease, or if the lease is deleted or taken by
//!   another process, its work is cancelled and [`Manager::run`](crate::Manager::run) returns an
//!   error. The process should exit; [`LeaderElection::reelect`] makes it a standby again instead.
//!
//! # What is guaranteed
//!
//! Kubernetes does not reject the writes of a former leader, and no client can do so in its place
//! (client-go states this, too). The fence of this crate guarantees instead:
//!
//! - Leader-bound work sends **no request after its own deadline**: the renew deadline, counted from
//!   the moment at which the last successful renewal was *sent*, on a clock that counts suspend. All
//!   requests of [`Context::client`](crate::Context::client) and
//!   [`Manager::leader_client`](crate::Manager::leader_client) are checked, including those of their
//!   `kube` clients; those in flight at the deadline are dropped.
//! - **No write of the former leader is committed after the first write of its successor**, as long as
//!   a request takes less than `lease duration / r - renew deadline` from its sender to its commit,
//!   where `r` is the ratio of the rates of the two clocks: 5 seconds with the defaults and equal
//!   rates, nothing with a ratio of 1.5. The time during which a process is paused between the last
//!   check and the system call that sends is part of this time.
//!
//! Events are an exception: those that were recorded in time may be written later.
//!
//! Beyond that limit only preconditions protect: updates with a resourceVersion, deletions with a uid.
//! For systems outside the cluster there is a [fencing token](crate::Context::fencing_token), which
//! increases with each leader.
//!
//! # Permissions
//!
//! The verbs `get`, `create` and `update` on `leases` of `coordination.k8s.io` in the namespace of the
//! lease are needed, `list` and `watch` are recommended: without them the lease is polled every retry
//! period. The verb `create` on `events` of `events.k8s.io` records elections.

mod elections;

mod elector;

mod electors;

mod leadership;

mod lease;

mod lock;

mod lost;

mod observer;

mod options;

mod status;

pub use crate::clock::MonotonicClock;
pub(crate) use elections::Elections;
pub(crate) use electors::Electors;
pub(crate) use leadership::Leadership;
pub use lost::LeaderElectionLost;
pub use options::{InvalidLeaderElection, LeaderElection};
pub use status::LeaderElectionHandle;
