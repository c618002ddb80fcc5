//! One process of the operator, from its start to its crash or stop.

use std::sync::Arc;

use evenkeel::cache::CacheOptions;
use evenkeel::journal::{Outcome, Record};
use evenkeel::manager::RunError;
use evenkeel::webhook::WebhookOptions;
use evenkeel::{BoxError, Clock, Key, Manager};
use evenkeel_cluster::Cluster;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::gate::Gate;
use crate::simulation::Config;
use crate::trace::{Lane, Recorder};

/// A reconcile, as far as oracles need it.
#[derive(Clone, Debug)]
pub(crate) struct Reconciled {
    pub(crate) object: String,
    pub(crate) panic: Option<String>,
    /// The record as text.
    pub(crate) text: String,
}

pub(crate) struct Incarnation {
    pub(crate) number: u32,
    manager: Manager,
    running: JoinSet<Result<(), RunError>>,
    reconciled: Arc<Mutex<Vec<Reconciled>>>,
}

impl Incarnation {
    pub(crate) async fn start(
        config: &Config,
        cluster: &Cluster,
        gate: &Arc<Gate>,
        clock: &Clock,
        recorder: &Recorder,
    ) -> Result<Self, BoxError> {
        let (number, client) = gate.admit();
        let reconciled: Arc<Mutex<Vec<Reconciled>>> = Arc::default();
        let (records, recorder) = (reconciled.clone(), recorder.clone());
        let seed = config.seed.wrapping_add(number.into());
        // Not the namespace of the samples, which are to be admitted.
        let namespace = format!("{}-system", config.name);
        let webhooks = WebhookOptions::new().in_process().service_namespace(&namespace);
        let manager = Manager::builder(&config.name)
            .clock(clock.clone())
            .seed(seed)
            .cache(CacheOptions::default().seed(seed))
            .webhooks(webhooks)
            .on_reconcile(move |record| {
                recorder.record(Lane::Operator, format!("reconciled {}", line(record)));
                records.lock().push(reconciled_of(record));
            })
            .build(client);
        (config.build)(&manager)?;
        cluster.serve_webhooks(&manager).await?;
        let mut running = JoinSet::new();
        running.spawn(manager.clone().run_until(std::future::pending()));
        Ok(Self { number, manager, running, reconciled })
    }

    /// Ends it as a crash does: at once, without any cleanup.
    pub(crate) async fn kill(mut self) -> Vec<Reconciled> {
        self.running.shutdown().await;
        std::mem::take(&mut self.reconciled.lock())
    }

    /// Stops it in order.
    pub(crate) async fn stop(mut self) -> Vec<Reconciled> {
        self.manager.stop();
        while self.running.join_next().await.is_some() {}
        std::mem::take(&mut self.reconciled.lock())
    }

    /// Returns the error of the manager, if it has ended.
    pub(crate) fn failure(&mut self) -> Option<String> {
        match self.running.try_join_next()? {
            Ok(Ok(())) => Some("the manager has stopped".to_owned()),
            Ok(Err(error)) => Some(evenkeel::chain(&error)),
            Err(error) => Some(error.to_string()),
        }
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
