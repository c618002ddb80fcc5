//! What the embedded API server promises, checked from outside.
//!
//! Each module is one area of the Kubernetes API and each test names one claim. Texts, codes and
//! orders are those of kube-apiserver 1.36: a test that disagrees with it is wrong, not strict.
//! Time is tokio's and paused wherever no socket or disk is involved, so nothing here sleeps.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "that is how a test fails, and how fixtures read best"
)]

mod harness;

// Requests and what they answer.
mod discovery;

mod crud;

mod list;

mod selectors;

mod watch;

mod delete;

mod patch;

mod apply;

mod subresources;

mod crd;

mod errors;

mod identity;

mod growth;

mod negotiation;

mod encoding;

// The server as a thing to hold.
mod durability;

mod listener;

mod limits;

mod many_servers;

// Others' clients.
mod kube_rs;

// What holds for all requests.
mod determinism;

mod properties;
