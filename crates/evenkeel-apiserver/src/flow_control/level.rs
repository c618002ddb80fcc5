//! The priority levels: their shares of the seats, and what they do with requests beyond them.

use std::sync::Arc;

use http::HeaderValue;
use parking_lot::Mutex;
use serde::Deserialize;

use super::borrowing::{self, Bounds, Smoothed};
use super::queue_set::{QueueSet, Response};
use super::retry_after::RetryAfter;
use crate::storage::Record;

/// The part of a level's seats that one request may occupy.
const SEATS_OF_A_REQUEST: f64 = 0.15;

/// The shares of a level that does not state them.
const DEFAULT_SHARES: f64 = 30.0;

/// A PriorityLevelConfiguration with its seats and queues.
pub(super) struct Level {
    pub(super) name: String,
    pub(super) uid: HeaderValue,
    pub(super) queues: Arc<QueueSet>,
    pub(super) retry_after: Arc<RetryAfter>,
    response: Response,
    bounds: Bounds,
    demand: Arc<Mutex<Smoothed>>,
}

#[derive(Deserialize)]
struct Stored {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    limited: Option<Limits>,
    #[serde(default)]
    exempt: Option<Limits>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Limits {
    nominal_concurrency_shares: Option<f64>,
    lendable_percent: Option<f64>,
    borrowing_limit_percent: Option<f64>,
    limit_response: Option<LimitResponse>,
}

#[derive(Deserialize)]
struct LimitResponse {
    #[serde(default)]
    queuing: Option<Queuing>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queuing {
    #[serde(default)]
    queues: usize,
    #[serde(default)]
    hand_size: usize,
    #[serde(default)]
    queue_length_limit: usize,
}

/// Reads the levels, which share `total` seats. Those that existed before keep their queues.
pub(super) fn read(
    records: &[Arc<Record>],
    existing: &[Arc<Level>],
    total: usize,
) -> Vec<Arc<Level>> {
    let read: Vec<(&Record, Limits, Response)> = records
        .iter()
        .filter_map(|record| Some((&**record, read_spec(record)?)))
        .map(|(record, (limits, response))| (record, limits, response))
        .collect();
    let all_shares: f64 = read.iter().map(|(_, limits, response)| limits.shares(*response)).sum();
    let levels = read.into_iter().filter_map(|(record, limits, response)| {
        let bounds = Bounds::new(
            total,
            limits.shares(response),
            all_shares,
            limits.lendable_percent.unwrap_or(0.0),
            limits.borrowing_limit_percent,
        );
        let name = record.key.name();
        let uid = HeaderValue::from_str(&record.uid).ok()?;
        let before = existing.iter().find(|level| level.name == name);
        Some(Arc::new(Level {
            name: name.to_owned(),
            uid,
            queues: match before {
                Some(before) => before.queues.clone(),
                None => Arc::new(QueueSet::new(response, bounds.nominal)),
            },
            retry_after: before.map(|before| before.retry_after.clone()).unwrap_or_default(),
            demand: before.map(|before| before.demand.clone()).unwrap_or_default(),
            response,
            bounds,
        }))
    });
    levels.collect()
}

fn read_spec(record: &Record) -> Option<(Limits, Response)> {
    let spec = serde_json::from_slice::<Stored>(&record.body).ok()?.spec;
    if let Some(exempt) = spec.exempt {
        return Some((exempt, Response::Exempt));
    }
    let limits = spec.limited?;
    let queuing = limits.limit_response.as_ref().and_then(|response| response.queuing.as_ref());
    let response = match queuing {
        Some(Queuing { queues, hand_size, queue_length_limit }) if *queues > 0 => {
            Response::Queue { queues: *queues, hand_size: *hand_size, length: *queue_length_limit }
        }
        _ => Response::Reject,
    };
    Some((limits, response))
}

impl Limits {
    fn shares(&self, response: Response) -> f64 {
        let default = if response == Response::Exempt { 0.0 } else { DEFAULT_SHARES };
        self.nominal_concurrency_shares.unwrap_or(default)
    }
}

/// Gives each level its seats, according to the demand since the last call.
pub(super) fn allocate(levels: &[Arc<Level>]) {
    let inputs = levels.iter().map(|level| {
        let mut demand = level.demand.lock();
        demand.update(level.queues.take_demand());
        borrowing::Level {
            is_exempt: level.response == Response::Exempt,
            bounds: level.bounds,
            demand: *demand,
        }
    });
    let inputs: Vec<borrowing::Level> = inputs.collect();
    for (level, seats) in levels.iter().zip(borrowing::allocate(&inputs)) {
        level.queues.configure(level.response, seats);
    }
}

impl Level {
    /// Returns the most seats of one request, if the level limits them.
    pub(super) fn max_seats(&self) -> Option<usize> {
        let Response::Queue { hand_size, .. } = self.response else { return None };
        let part = (self.bounds.nominal as f64 * SEATS_OF_A_REQUEST).ceil() as usize;
        Some(part.min(self.bounds.nominal / hand_size.max(1)).max(1))
    }
}
