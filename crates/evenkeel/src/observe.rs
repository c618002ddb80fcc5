//! What is served about a manager: metrics and health.
//!
//! `/metrics` is served over HTTPS to clients that the API server authenticates and authorizes
//! ([`authorize`]). `/healthz` and `/readyz` ([`health`]) are open: a kubelet has no credentials, and
//! the reasons of failures are withheld on the endpoint of all checks.

pub(crate) mod authorize;

pub(crate) mod health;

pub(crate) mod metrics;
