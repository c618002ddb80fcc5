//! The runtime against the embedded API server, in virtual time.
//!
//! `ACCEPTANCE.md` maps the specified behaviour to tests.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "that is how a test fails, and how fixtures read best"
)]

mod acceptance;

mod clusters;

mod costs;

mod doubts;

mod dynamic;

mod events;

mod harness;

mod history;

mod journal;

mod lifecycle;

mod loops;

mod metrics;

mod nulls;

mod owners;
mod ownership;

mod reads;

mod reconciles;

mod scenarios;

mod signals;

mod sources;

mod waits;

mod writes;
