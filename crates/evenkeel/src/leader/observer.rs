//! Watches the Lease, so that a standby notices immediately when it is released.
//!
//! The elector uses what it sees to decide when to act, never as the proof that a lease has expired.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_types::watch;

use super::lease::Lease;
use crate::connect::Transport;
use crate::key::Key;
use crate::kind::Kind;
use crate::random::Random;
use crate::watch::{Health, History, Reflector, ReflectorOptions, Scope, Sink};

/// How long to poll before the watch is tried again if it is forbidden.
const FORBIDDEN: Duration = Duration::from_secs(600);

/// What the watch has seen last.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) latest: Latest,
    /// Whether changes are seen when they happen; otherwise the Lease has to be polled.
    pub(super) watched: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Latest {
    #[default]
    Unknown,
    Present(Arc<Lease>),
    Absent,
}

/// Watches the Lease until it is dropped.
pub(super) async fn run(
    transport: Transport,
    key: &Key,
    seen: watch::Sender<Seen>,
    mut random: Random,
) -> Infallible {
    let scope = Scope {
        kind: Kind::of::<k8s_openapi::api::coordination::v1::Lease>(),
        namespace: key.namespace().map(str::to_owned),
        labels: None,
        fields: Some(format!("metadata.name={}", key.name())),
        metadata_only: false,
    };
    // One object: a streaming list would be one more request on servers that do not support it.
    let options = ReflectorOptions { streaming: false, ..ReflectorOptions::default() };
    let (forbidden, mut is_forbidden) = watch::channel(false);
    let mut sink = LeaseSink { seen, listed: None, forbidden };
    loop {
        let random = Random::new(random.next());
        let reflector = Reflector::new(
            transport.clone(),
            scope.clone(),
            options.clone(),
            History::default(),
            random,
        );
        tokio::select! {
            biased;
            // The sender lives in the sink.
            _ = is_forbidden.wait_for(|forbidden| *forbidden) => {}
            never = reflector.run(&mut sink) => match never {},
        }
        tracing::warn!(lease = %key, "watching the Lease is forbidden, polling it instead");
        tokio::time::sleep(FORBIDDEN).await;
        sink.forbidden.send_replace(false);
    }
}

struct LeaseSink {
    seen: watch::Sender<Seen>,
    /// The Lease of the list that is being received.
    listed: Option<Arc<Lease>>,
    forbidden: watch::Sender<bool>,
}

impl LeaseSink {
    fn set(&self, latest: Latest) {
        self.seen.send_modify(|seen| seen.latest = latest);
    }
}

impl Sink for LeaseSink {
    fn begin(&mut self, _: bool) {
        self.listed = None;
    }

    fn listed(&mut self, raw: &[u8]) {
        self.listed = Lease::parse(raw).ok().map(Arc::new);
    }

    fn unlisted(&mut self, _: &[u8]) {
        self.listed = None;
    }

    fn commit(&mut self, _: &str) {
        let latest = self.listed.take().map_or(Latest::Absent, Latest::Present);
        self.set(latest);
    }

    fn abandon(&mut self) {
        self.listed = None;
    }

    fn changed(&mut self, raw: &[u8]) {
        if let Ok(lease) = Lease::parse(raw) {
            self.set(Latest::Present(lease.into()));
        }
    }

    fn deleted(&mut self, _: &[u8]) {
        self.set(Latest::Absent);
    }

    fn bookmark(&mut self, _: &str) {}

    fn matches_first(&mut self, first: Option<&[u8]>) -> bool {
        let first = first.and_then(|raw| Lease::parse(raw).ok());
        match (first, &self.seen.borrow().latest) {
            (Some(first), Latest::Present(lease)) => first.uid() == lease.uid(),
            (None, Latest::Present(_)) => false,
            // A new Lease is delivered by the watch.
            (_, Latest::Absent | Latest::Unknown) => true,
        }
    }

    fn health(&mut self, health: &Health) {
        let watched = matches!(health, Health::Connected);
        self.seen.send_if_modified(|seen| {
            let changed = seen.watched != watched;
            seen.watched = watched;
            changed
        });
        if let Health::Failing { error, .. } = health
            && error.is_forbidden()
        {
            self.forbidden.send_replace(true);
        }
    }
}
