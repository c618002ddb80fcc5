//! Integration tests of the embedded API server.
//!
//! Each module covers one area of the Kubernetes API. Messages, codes and orders are those of
//! kube-apiserver 1.36: a test that differs from it is wrong. Tests without sockets and disk run
//! with tokio's paused clock, so none of them sleeps.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "tests fail by panicking; fixtures take values for brevity"
)]

mod harness;

// Requests and responses.
mod discovery;

mod crud;

mod list;

mod selectors;

mod watch;

mod delete;

mod patch;

mod apply;
mod audit;

mod subresources;

mod crd;
mod validation_rules;

mod errors;

mod identity;

mod rbac;

mod access;

mod nodes;

mod tokens;

// Admission plugins, a file each.
mod limit_ranger;

mod service_account;

mod resource_quota;

mod optional_plugins;

mod pod_security;

mod conversion;

mod certificates;

mod owner_references;

mod pod_topology_labels;

mod policy_params;

mod webhook_service;

mod webhooks;

mod webhook_matching;

mod webhook_mutations;

mod match_conditions;

mod validating_policies;

mod mutating_policies;

mod webhooks_tls;

mod growth;

mod negotiation;

mod encoding;

// The server as a process: storage, listeners, limits.
mod durability;

mod listener;

mod limits;

mod faults;

mod flow_control;

mod event_ttl;

mod service_cidr;

mod storage_migration;

mod many_servers;

// Other clients.
mod kube_rs;

// Properties of all requests.
mod determinism;

mod properties;
