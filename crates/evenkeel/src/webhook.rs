//! Webhooks: admission, conversion of custom resources, and token authentication.
//!
//! A webhook is registered with the manager, beside the controllers:
//!
//! ```no_run
//! use evenkeel::prelude::*;
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! # fn example(manager: &Manager) -> Result<()> {
//! manager
//!     .webhook::<ConfigMap>()
//!     .defaulter(|map: &mut ConfigMap, _: &AdmissionRequest| {
//!         map.immutable.get_or_insert(true);
//!         Ok(())
//!     })
//!     .validator(|map: &ConfigMap, _: &AdmissionRequest| match map.immutable {
//!         Some(true) => Ok(Warnings::new()),
//!         _ => Err("must be immutable".into()),
//!     })
//!     .register()?;
//! # Ok(())
//! # }
//! ```
//!
//! The manager serves all webhooks on one HTTPS port, on every replica and before the caches start,
//! with paths as in kubebuilder: `/mutate-apps-v1-deployment`, `/validate-apps-v1-deployment` and
//! `/convert`. [`WebhookOptions`] sets port and certificates; by default the operator has its own
//! certificate authority, rotates it, and publishes it in the `caBundle`s ([`Certificates`]).
//! [`Manager::webhook_configurations`](crate::Manager::webhook_configurations) returns the objects to
//! install, and [`Manager::webhook_rules`](crate::Manager::webhook_rules) the permissions that the
//! certificates need. In a test on an embedded cluster, `TestCluster::run` calls the webhooks in
//! process, without certificates.

mod authentication;

mod builder;

mod certificates;

mod configuration;

mod conversion;

mod endpoint;

mod invalid;

mod options;

mod patch;

mod probe;

mod registry;

mod request;

mod response;

mod review;

mod rules;

mod server;

mod service;

mod typed;

pub use authentication::{AuthenticatedUser, TokenAuthenticator};
pub use builder::{RegisterError, WebhookBuilder};
pub use certificates::{Certificates, SelfManaged};
pub use configuration::WebhookConfigurations;
pub use conversion::Conversion;
pub use invalid::Invalid;
pub use options::WebhookOptions;
pub use request::{AdmissionRequest, Operation};
pub use response::AdmissionResponse;
pub use rules::WebhookRules;
pub use service::WebhookService;
pub use typed::{AdmissionHandler, Defaulter, Validator, Warnings};

pub(crate) use registry::Webhooks;
pub(crate) use server::run;

#[cfg(test)]
mod tests;
