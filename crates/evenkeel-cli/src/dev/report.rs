//! Prints a block per reconcile of the running operator.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::operator::socket::Operator;
use crate::operator::why;
use crate::output;

/// The time between attempts to connect to an operator that is starting.
const INTERVAL: Duration = Duration::from_millis(20);

/// Follows the journal of an operator on a thread of its own, which ends with the operator.
pub(super) struct Reporter(Arc<AtomicBool>);

impl Reporter {
    /// Follows the operator behind a socket, as soon as it serves it.
    pub(super) fn start(name: &str, path: PathBuf) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let (operator, stop) = (Operator::at(name, path), stopped.clone());
        std::thread::spawn(move || {
            let request = json!({"method": "records", "follow": true});
            let mut hinted = false;
            while !stop.load(Ordering::Relaxed) {
                let followed = operator.stream(&request, true, |record| {
                    print(&record, &mut hinted);
                    Ok(())
                });
                if followed.is_ok() {
                    return;
                }
                std::thread::sleep(INTERVAL);
            }
        });
        Self(stopped)
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn print(record: &Value, hinted: &mut bool) {
    // A closed stdout must not stop the operator.
    let _ = std::io::stdout().write_all(why::block(record).as_bytes());
    let error = record["error"].as_str().unwrap_or_default();
    if error.contains("is forbidden") && !*hinted {
        *hinted = true;
        output::progress(
            "! The role of the operator does not allow this. What its controllers own, watch and \
             read is allowed; add the rest with ManagerBuilder::rule.",
        );
    }
}
