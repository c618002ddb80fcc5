//! Whether a running operator has something to do.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::operator::socket::Operator;

/// How long the operator has nothing to do until the plan is complete.
const QUIET: Duration = Duration::from_secs(1);

/// What an operator does at a moment.
#[derive(Default)]
pub(super) struct Activity {
    /// Whether something runs or is due soon.
    busy: bool,
    /// The number of reconciles so far.
    reconciles: u64,
    /// Why it is not ready.
    pub(super) problems: Vec<String>,
}

impl Activity {
    /// Requests the state of an operator through its debug socket.
    pub(super) fn of(operator: &Operator) -> Self {
        let queue = operator.request(&json!({"method": "queue"}));
        let (Ok(status), Ok(items)) = (operator.status(), queue) else {
            // It is starting.
            return Self { busy: true, ..Self::default() };
        };
        Self::parse(&status, &items)
    }

    fn parse(status: &Value, items: &[Value]) -> Self {
        let list = |name: &str| status[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let soon = |item: &Value| {
            item["state"] != "delayed" || item["seconds"].as_f64() < Some(QUIET.as_secs_f64())
        };
        let problems = list("problems").iter().map(|problem| {
            let text = |name: &str| problem[name].as_str().unwrap_or_default();
            format!("{}: {}", text("check"), text("problem"))
        });
        let reconciles = list("controllers").iter().filter_map(|it| it["reconciles"].as_u64());
        Self {
            busy: status["ready"] != true || items.iter().any(soon),
            reconciles: reconciles.sum(),
            problems: problems.collect(),
        }
    }
}

/// Since when an operator has nothing to do.
#[derive(Default)]
pub(super) struct Idle {
    since: Option<Instant>,
    seen: (u64, usize),
}

impl Idle {
    /// Whether nothing was done for the quiet period: no reconcile, and no request.
    pub(super) fn is_over(&mut self, activity: &Activity, requests: usize, now: Instant) -> bool {
        let seen = (activity.reconciles, requests);
        if activity.busy || seen != self.seen {
            *self = Self { since: None, seen };
            return false;
        }
        now.duration_since(*self.since.get_or_insert(now)) >= QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_is_busy_until_it_is_ready_and_nothing_is_due_soon() {
        let status = |ready: bool| json!({"ready": ready, "controllers": [{"reconciles": 2}]});
        let item = |state: &str, seconds: f64| json!({"state": state, "seconds": seconds});
        assert!(Activity::parse(&status(false), &[]).busy);
        assert!(Activity::parse(&status(true), &[item("processing", 0.1)]).busy);
        assert!(Activity::parse(&status(true), &[item("delayed", 0.1)]).busy);
        let idle = Activity::parse(&status(true), &[item("delayed", 600.0)]);
        assert_eq!((idle.busy, idle.reconciles), (false, 2));
    }

    #[test]
    fn quiet_period_starts_again_with_each_request() {
        let mut idle = Idle::default();
        let activity = Activity { reconciles: 1, ..Activity::default() };
        let start = Instant::now();
        assert!(!idle.is_over(&activity, 0, start), "a reconcile has just ended");
        assert!(!idle.is_over(&activity, 0, start));
        assert!(!idle.is_over(&activity, 1, start + QUIET), "a request was made");
        assert!(!idle.is_over(&activity, 1, start + QUIET));
        assert!(idle.is_over(&activity, 1, start + 2 * QUIET));
    }
}
