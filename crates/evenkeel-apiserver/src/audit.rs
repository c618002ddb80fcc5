//! The audit log: which requests are recorded, in how much detail, and where.
//!
//! A [`Policy`] decides by user, verb and resource; a [`Sink`] receives the events. The events are
//! those of kube-apiserver (`audit.k8s.io/v1`): one when a request is received, one when its
//! response is complete, and for watches one when the response starts.

mod channel;

mod event;

mod log;

mod policy;

mod trail;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

pub use self::channel::{ChannelSink, Receiver, channel};
pub use self::event::{AuthenticationMetadata, Event, ObjectReference, UserInfo};
pub use self::log::{LogFile, LogOptions};
use self::policy::Decision;
pub use self::policy::{Level, Policy, PolicyError, Stage};
pub use self::trail::AuditAnnotations;
pub(crate) use self::trail::{AuditTrail, Completion};
use crate::authz::Attributes;
use crate::clock_rng::ClockRng;

/// Where audit events go.
pub trait Sink: Send + Sync {
    /// Takes an event, and returns whether it was accepted. Requests wait for it, so it must not
    /// block: a sink that cannot keep up drops events.
    fn process(&self, event: &Event) -> bool;
}

impl<S: Sink + ?Sized> Sink for Arc<S> {
    fn process(&self, event: &Event) -> bool {
        (**self).process(event)
    }
}

/// The policy and the sink of a server.
pub(crate) struct Audit {
    policy: Policy,
    sink: Box<dyn Sink>,
    clock: Arc<ClockRng>,
    /// Events that the sink accepted, and that it dropped.
    accepted: AtomicU64,
    dropped: AtomicU64,
}

impl Audit {
    pub(crate) fn new(policy: Policy, sink: Box<dyn Sink>, clock: Arc<ClockRng>) -> Self {
        Self { policy, sink, clock, accepted: AtomicU64::new(0), dropped: AtomicU64::new(0) }
    }

    /// Returns what is recorded of a request, if anything. Before authentication there is no user.
    pub(crate) fn decide(
        &self,
        request: &Attributes<'_>,
        authenticated: bool,
    ) -> Option<&Decision> {
        self.policy.decide(request, authenticated)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn send(&self, event: &Event) {
        let count = if self.sink.process(event) { &self.accepted } else { &self.dropped };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of events that the sink accepted.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Returns the number of events that the sink dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
