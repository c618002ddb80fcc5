//! One process of the operator, from its start to its crash or stop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::CacheOptions;
use evenkeel::journal::{Outcome, Record};
use evenkeel::leader::{LeaderElection, MonotonicClock};
use evenkeel::manager::RunError;
use evenkeel::webhook::WebhookOptions;
use evenkeel::{BoxError, Clock, ControllerHandle, Key, Manager};
use evenkeel_cluster::Cluster;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::application::Link;
use crate::gate::{Gate, Reviews};
use crate::simulation::Config;
use crate::trace::{Lane, Recorder};

/// Time in which all tasks of a process that has crashed are dropped.
const ABORT: Duration = Duration::from_millis(1);

/// A reconcile, as far as oracles need it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Reconciled {
    pub(crate) object: String,
    pub(crate) panic: Option<String>,
    /// The record as text.
    pub(crate) text: String,
}

/// How the process of an operator has ended.
pub(crate) enum End {
    /// It has lost the lease, and is started again.
    LostLease(String),
    Failed(String),
}

/// Which operator is started.
#[derive(Clone, Copy)]
pub(crate) struct Version {
    /// Whether it competes for a lease.
    pub(crate) elects: bool,
    pub(crate) is_previous: bool,
}

pub(crate) struct Incarnation {
    pub(crate) number: u32,
    gate: Arc<Gate>,
    manager: Manager,
    running: JoinSet<Result<(), RunError>>,
    /// Controllers that are paused after each reconcile.
    stepped: Arc<Mutex<Vec<ControllerHandle>>>,
    reconciled: Arc<Mutex<Vec<Reconciled>>>,
}

impl Incarnation {
    pub(crate) async fn start(
        config: &Config,
        cluster: &Cluster,
        gate: &Arc<Gate>,
        clock: &Clock,
        recorder: &Recorder,
        version: Version,
    ) -> Result<Self, BoxError> {
        let (number, client) = gate.admit();
        let reconciled: Arc<Mutex<Vec<Reconciled>>> = Arc::default();
        let (records, recorder) = (reconciled.clone(), recorder.clone());
        let stepped: Arc<Mutex<Vec<ControllerHandle>>> = Arc::default();
        let pausing = stepped.clone();
        let seed = config.seed.wrapping_add(number.into());
        // Not the namespace of the samples, which are to be admitted.
        let namespace = format!("{}-system", config.name);
        let webhooks = WebhookOptions::new().in_process().service_namespace(&namespace);
        let mut builder = Manager::builder(&config.name)
            .clock(clock.clone())
            .seed(seed)
            .cache(CacheOptions::default().seed(seed))
            .webhooks(webhooks)
            .on_reconcile(move |record| {
                recorder.record(Lane::Operator, format!("reconciled {}", line(record)));
                records.lock().push(reconciled_of(record));
                pausing.lock().iter().for_each(|controller| controller.set_paused(true));
            });
        let lease_clock = MonotonicClock::tokio();
        if version.elects {
            let identity = format!("{}-{number}", config.name);
            let election = LeaderElection::new().namespace("default").identity(&identity);
            builder = builder.leader_election(election.clock(lease_clock.clone()));
        }
        let manager = builder.build(client);
        let build = match &config.previous {
            Some(previous) if version.is_previous => previous,
            _ => &config.build,
        };
        build(&manager, &Link { gate: gate.clone(), incarnation: number })?;
        cluster.serve_webhooks(&manager).await?;
        let service = manager.webhook_service();
        if let Some((namespace, name, port)) = service.service() {
            // In place of the service that does not pass the gate.
            let reviews = Reviews::new(gate.clone(), number, &config.user(), service);
            cluster.server().register_webhook_service(&namespace, &name, port, reviews);
        }
        if let Some(election) = manager.leader_elections().into_iter().next() {
            gate.compete(number, lease_clock, election);
        }
        let mut running = JoinSet::new();
        running.spawn(manager.clone().run_until(std::future::pending()));
        Ok(Self { number, gate: gate.clone(), manager, running, stepped, reconciled })
    }

    /// Ends it as a crash does: at once, without any cleanup.
    pub(crate) async fn kill(mut self) -> Vec<Reconciled> {
        self.gate.close(self.number);
        // They refer to the manager, which refers to them.
        self.stepped.lock().clear();
        self.running.shutdown().await;
        // Tasks of tasks are dropped one after the other; until then one of them may be polled again.
        tokio::time::sleep(ABORT).await;
        self.gate.end(self.number);
        std::mem::take(&mut self.reconciled.lock())
    }

    /// Stops it gracefully.
    pub(crate) async fn stop(mut self) -> Vec<Reconciled> {
        self.stepped.lock().clear();
        self.set_paused(false);
        self.manager.stop();
        while self.running.join_next().await.is_some() {}
        self.gate.end(self.number);
        std::mem::take(&mut self.reconciled.lock())
    }

    /// Returns whether metrics have one of the texts.
    pub(crate) fn exposed_metrics(&self, canaries: &BTreeSet<String>) -> Option<String> {
        if canaries.is_empty() {
            return None;
        }
        let text = self.manager.metrics().encode();
        let line = text.lines().find(|line| canaries.iter().any(|canary| line.contains(canary)))?;
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        Some(format!("metric {name}"))
    }

    /// Returns how the manager has ended, if it has.
    pub(crate) fn end(&mut self) -> Option<End> {
        Some(match self.running.try_join_next()? {
            Ok(Ok(())) => End::Failed("the manager has stopped".to_owned()),
            Ok(Err(error)) if lost_lease(&error) => End::LostLease(evenkeel::chain(&error)),
            Ok(Err(error)) => End::Failed(evenkeel::chain(&error)),
            Err(error) => End::Failed(error.to_string()),
        })
    }

    /// Pauses all controllers after each reconcile, or no more.
    pub(crate) fn set_stepped(&self, stepped: bool) {
        let controllers = if stepped { self.manager.controllers() } else { Vec::new() };
        *self.stepped.lock() = controllers;
        self.set_paused(stepped);
    }

    /// Pauses all controllers, or resumes them.
    pub(crate) fn set_paused(&self, paused: bool) {
        for controller in self.manager.controllers() {
            controller.set_paused(paused);
        }
    }

    /// Returns the number of keys in workqueues.
    pub(crate) fn queued(&self) -> usize {
        self.manager.controllers().iter().map(|controller| controller.queue().len()).sum()
    }

    /// Returns the number of reconciles so far.
    pub(crate) fn reconciles(&self) -> usize {
        self.reconciled.lock().len()
    }

    /// Returns the last reconcile.
    pub(crate) fn last(&self) -> Option<Reconciled> {
        self.reconciled.lock().last().cloned()
    }

    /// Reconciles an object of a kind, if it is the kind of a controller.
    pub(crate) fn enqueue(&self, kind: &str, key: &Key) {
        for controller in self.manager.controllers() {
            if controller.kind().kind() == kind {
                controller.enqueue(key.clone(), "simulation");
            }
        }
    }
}

/// Whether a manager has ended because it lost the lease, with or without work that was cancelled: a
/// request of a paused process completes only after the grace period.
fn lost_lease(error: &RunError) -> bool {
    match error {
        RunError::LeaderElectionLost(_) => true,
        RunError::ShutdownTimedOut { after: Some(after), .. } => lost_lease(after),
        _ => false,
    }
}

/// Returns the record without its duration, which is not virtual.
fn line(record: &Record) -> String {
    format!("{} {}: {:#.1}; {}", record.kind.kind(), record.key, record.causes, record.outcome)
}

fn reconciled_of(record: &Record) -> Reconciled {
    let panic = match &record.outcome {
        Outcome::Panicked(message) => Some(message.clone()),
        _ => None,
    };
    Reconciled {
        object: format!("{} {}", record.kind.kind(), record.key),
        panic,
        text: record.to_string(),
    }
}
