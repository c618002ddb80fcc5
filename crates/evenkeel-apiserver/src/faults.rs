//! Faults that a plan injects into the requests of clients: rejections, lost responses, and watches
//! that are cut, expired or late.
//!
//! They act in front of the server, between the listener and the service, so a fault never reaches
//! into a stage of a request: a request was either processed completely or not at all. Only what the
//! contract of the API allows is injected. Without a plan nothing is.
//!
//! `plan` is the data, with the words of evenkeel-sim's plans; `decide` counts requests and
//! chooses the fault of each; `stream` injects it into watches, `server/listener.rs` into requests;
//! `log` records it.

mod decide;
mod log;
mod place;
mod plan;
mod rejection;
mod stream;

pub(crate) use self::decide::{Faults, Gap};
pub(crate) use self::place::Place;
pub use self::plan::{At, Effect, Fault, Plan, PlanError, Random};
pub(crate) use self::rejection::{expired, rejection};
pub use self::stream::Reset;
pub(crate) use self::stream::{Mode, Watched};
