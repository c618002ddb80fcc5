//! The runtime against the embedded API server, in virtual time.
//!
//! One test for each behaviour that operators rely on; names are claims.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "that is how a test fails, and how fixtures read best"
)]

mod doubts;

mod harness;

mod journal;

mod lifecycle;

mod owners;

mod reads;

mod reconciles;

mod scenarios;

mod sources;

mod writes;
