//! A Kubernetes API server in one process: embeddable, ready in milliseconds.
//!
//! [`ApiServer`] offers one pipeline in two ways: as a tower service that a client in the same
//! process calls without a socket, and over TLS on a loopback address with a kubeconfig for kubectl
//! and every other client. It is a tool for development and tests, not a control plane.
//!
//! A request passes `route → authenticate → impersonate → authorize → receive → decode → manage →
//! mutate → prepare → validate → persist → encode`; `pipeline.rs` lists the stages.

// The request path, in order.
mod server;

pub mod listen;

pub mod identity;

mod handler;

mod request;

mod pipeline;

mod codec;

// Used by the stages.
mod authz;

mod admission;

mod json;

mod yaml;

mod object;

mod hooks;

// The verbs.
mod context;

mod verbs;

mod subresources;

mod selector;

mod watch;

mod paths;

mod health;

// What is served, and the storage.
mod registry;

mod openapi;

#[doc(hidden)]
pub mod storage;

mod compactor;

mod bootstrap;

// Shared by all of the above.
mod body;

mod digest;

mod limits;

mod metrics;

mod offload;

mod clock_rng;

mod status;

mod throttle;

// The public interface.
pub use authz::{AllowAuthenticated, Attributes, Authorizer, Decision, ResourceAttributes};
pub use body::Body;
pub use limits::Limits;
pub use server::{ApiServer, BuildError, Builder, ServeError, ServerHandle, Service};
pub use storage::{Durability, OpenError, Window};
