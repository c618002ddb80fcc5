//! A Kubernetes API server in one process: embeddable, ready in milliseconds.
//!
//! [`ApiServer`] offers one pipeline in two ways: as a tower service that a client in the same
//! process calls without a socket, and over TLS on a loopback address with a kubeconfig for kubectl
//! and every other client. It is a tool for development and tests, not a control plane.
//!
//! A request passes `route → authenticate → impersonate → authorize → receive → decode → manage →
//! mutate → prepare → validate → persist → encode`: `handler.rs` calls the first stages, `pipeline.rs`
//! those of a write.

// The request path, in order.
mod server;

pub mod listen;

pub mod identity;

pub mod faults;

mod event_ttl;
mod flow_control;
mod handler;

mod request;

mod verbs;

mod subresources;

mod pipeline;

mod watch;

mod paths;

mod health;

// What the request path calls by traits of `context`.
mod admission;

mod hooks;

mod bootstrap;

// The context of a request, and what is served and stored.
mod context;

mod codec;

mod conversion;

mod selector;

mod registry;

mod openapi;

#[doc(hidden)]
pub mod storage;

mod commits;

mod compactor;

// Shared by all of the above.
mod access;

pub mod audit;

mod authz;

mod rbac;

mod body;

mod clock_rng;

mod digest;

mod json;

mod limits;

mod metrics;

mod nodes;

mod object;

mod offload;

mod status;

mod throttle;

mod token_tracking;

mod tokens;

mod webhook;

mod yaml;

// The public interface.
pub use access::{Access, AccessReport, AccessTrail, CountedAccess, MinimalRole};
pub use authz::{
    AllowAuthenticated, Attributes, Authorizer, Decision, PolicyRule, ResourceAttributes, Rules,
};
pub use body::Body;
pub use limits::Limits;
pub use server::{
    ApiServer, ApiServerBuilder, AuthorizationMode, BuildError, Commit, FaultyBody,
    LegacyTokenSigner, ListenerService, ServeError, ServerHandle, Service, Snapshot, StoredObject,
};
pub use storage::{Durability, OpenError, Window};
pub use tokens::ServiceAccountOptions;
