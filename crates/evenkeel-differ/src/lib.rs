//! Sends the same requests to kube-apiserver and to the embedded API server and reports every
//! difference.
//!
//! A [`Sequence`] of steps, written by hand or generated from a seed ([`generate`]), is run on both
//! servers (`run`). The responses are made comparable (`canon`) and compared (`compare`). Intended
//! differences are listed in `DIFFERENCES.md` ([`KnownDifferences`]); any other is shrunk to the
//! shortest sequence that reproduces it (`shrink`) and printed (`report`). [`transcript`]s of
//! kube-apiserver's responses allow the comparison without one.

// Sequences.
pub mod sequence;

pub mod generate;

pub mod coverage;

// Running and comparing them.
mod server;

mod run;

mod canon;

mod facts;

mod compare;

mod apply_errors;

mod layout;

mod known;

mod pair;

mod shrink;

mod webhooks;

// Results.
mod report;

pub mod transcript;

pub use canon::canonical;
pub use compare::{Difference, compare};
pub use known::{KnownDifferences, KnownDifferencesError};
pub use layout::Layout;
pub use pair::{Finding, Pair};
pub use report::render_report;
pub use run::{RunError, RunOptions, StepResponse, run};
pub use sequence::{Sequence, Step};
pub use server::{InProcess, Real, Server};
pub use shrink::shrink;
pub use webhooks::{WebhookAddress, WebhookServer, WebhookServerError};
