//! The runtime against the embedded API server, in virtual time.
//!
//! `ACCEPTANCE.md` maps the specified behaviour to tests.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "that is how a test fails, and how fixtures read best"
)]

mod acceptance;

mod canaries;

mod clusters;

mod contender;

mod costs;

mod dashboards;

mod dynamic;

mod events;

mod handovers;

mod harness;

mod history;

mod journal;

mod leader;

mod lifecycle;

mod loops;

mod metrics;

mod nulls;

mod observe;

mod outages;

mod owners;
mod ownership;

mod poisoned;

mod replicas;

mod reads;

mod reconciles;

mod scenarios;

mod soak;

mod scrape;

mod signals;

mod sources;

mod stops;
#[cfg(feature = "otel")]
mod traces;

mod unknown_outcomes;

mod waits;

mod writes;
