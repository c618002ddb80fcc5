//! Fault simulation for Kubernetes operators: one line in a test finds bugs that only show in
//! production.
//!
//! ```no_run
//! # use evenkeel::prelude::*;
//! # struct Operator;
//! # impl Operator { fn register(&self, _: &Manager) -> Result<(), RegisterError> { Ok(()) } }
//! evenkeel_sim::operator("web", |manager| Operator.register(manager))
//!     .sample("{apiVersion: example.com/v1, kind: Web, metadata: {name: a}, spec: {size: 2}}")
//!     .check();
//! ```
//!
//! [`operator`] returns a [`Simulation`]. Each run has a cluster of its own in virtual time, and each
//! request of the operator and each watch event for it passes a gate, where a [`Plan`] acts. The
//! plans follow from a run without faults; the [`Oracle`]s compare each run with it. The README
//! describes faults, oracles and variables.

mod simulation;

mod check;

mod explore;

mod shrink;

mod manual;

// One run.
mod world;

mod subprocess;

mod gate;

mod application;

mod user;

// What a run consists of, and what it has shown.
mod plan;

mod workload;

mod state;

mod trace;

mod oracle;

mod report;

pub use application::{Application, ApplicationHandle, CallError};
pub use explore::{Coverage, Exhaustive, Tier};
pub use manual::World;
pub use oracle::{Oracle, Violation};
pub use plan::{At, Effect, Fault, Plan};
pub use report::{BugClass, Finding, Report};
pub use simulation::{Simulation, operator, operator_with};
pub use trace::{Lane, TraceEvent};
pub use workload::{ObjectRef, Step};

/// Fails the test.
#[track_caller]
#[expect(clippy::panic, reason = "tests fail by panicking")]
fn fail(message: &str) -> ! {
    panic!("{message}")
}
