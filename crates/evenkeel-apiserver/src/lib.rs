//! A Kubernetes API server in one process: embeddable, ready in milliseconds.
//!
//! [`ApiServer`] has two faces on one pipeline: a tower service that a client in the same
//! process calls without a socket, and TLS on a loopback address with a kubeconfig for kubectl
//! and every other client. It is a tool for development and tests, not a control plane.
//!
//! A request goes `route → authenticate → impersonate → authorize → decode → manage → mutate →
//! prepare → validate → persist → encode`; `pipeline.rs` is the table of contents.

// The order of a request.
mod server;

pub mod listen;

pub mod identity;

mod route;

mod query;

mod negotiate;

mod pipeline;

// What the stages call.
mod authn;

mod authz;

mod admission;

mod json;

mod yaml;

mod object;

mod service;

// What the verbs do.
mod context;

mod verbs;

mod selector;

mod watch;

mod paths;

mod health;

// What is served, and where it is kept.
mod registry;

mod openapi;

#[doc(hidden)]
pub mod storage;

mod compactor;

mod bootstrap;

// What all of it shares.
mod body;

mod core;

mod digest;

mod limits;

mod metrics;

mod offload;

mod clock_rng;

mod status;

mod throttle;

// The public interface is this.
pub use authz::{AllowAuthenticated, Attributes, Authorizer, Decision, ResourceAttributes};
pub use body::Body;
pub use limits::Limits;
pub use server::{ApiServer, BuildError, Builder, ServeError, ServerHandle, Service};
pub use storage::{Durability, OpenError, Window};
