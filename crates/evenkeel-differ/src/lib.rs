//! The same requests to a real API server and to the embedded one, and every difference shown.
//!
//! A [`Sequence`] of steps, written by hand or made by the [`generate`]or from a seed, is carried
//! out on two servers (`run`), the answers are freed of what must differ (`canon`) and compared
//! (`compare`). What differs on purpose stands in `DIFFERENCES.md` ([`KnownDifferences`]); anything else is
//! shrunk to the shortest sequence that still shows it (`shrink`) and printed (`report`).
//! [`transcript`]s of the real server's answers make the comparison possible where there is none.

// A sequence, and how it comes to be.
pub mod sequence;

pub mod generate;

pub mod coverage;

// What happens to it.
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

// What is shown and kept.
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
pub use server::{Real, Server};
pub use shrink::shrink;
