//! The log of what was injected: a JSON object per line, whose `fault` can be copied into a plan.

use std::io::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::Fault;

/// Where faults are logged.
pub(super) struct Log {
    writer: Box<dyn Write + Send>,
    failed: bool,
}

impl Log {
    pub(super) fn new(writer: Box<dyn Write + Send>) -> Self {
        Self { writer, failed: false }
    }

    pub(super) fn injected(&mut self, fault: &Fault, now: Timestamp) {
        let message = fault.to_string();
        self.write(&json!({"time": time(now), "injected": fault, "message": message}));
    }

    /// Logs that a fault of the plan did not happen.
    pub(super) fn unused(&mut self, fault: &Fault, count: u32, now: Timestamp) {
        let message =
            format!("there were {count} such requests or events, and the fault did not happen");
        self.write(&json!({"time": time(now), "unused": fault, "message": message}));
    }

    fn write(&mut self, line: &Value) {
        let written = writeln!(self.writer, "{line}").and_then(|()| self.writer.flush());
        if let Err(error) = written
            && !std::mem::replace(&mut self.failed, true)
        {
            tracing::warn!(%error, "cannot log injected faults");
        }
    }
}

fn time(now: Timestamp) -> String {
    format!("{now:.3}")
}
