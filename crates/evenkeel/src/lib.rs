//! The operator framework for Rust.
//!
//! An operator author writes one function that makes reality match intent. This crate brings the
//! rest: it watches, caches, queues, retries, writes and shuts down.
//!
//! Data goes one way: `API server → watch → cache → source → predicate → handler → queue → worker
//! → reconcile → client → API server`. The only thing that crosses from the left half to the right
//! half is a [`Key`] with its causes.

// What everything speaks of.
mod key;

mod kind;

mod uid;

mod random;

// From the API server to the store.
mod watch;

pub mod cache;

mod event;

// From keys to workers.
pub mod queue;

pub use uid::Uid;

pub use event::Event;
pub use k8s_openapi;
pub use key::Key;
pub use kind::{Kind, Object, Scope};
pub use kube;
