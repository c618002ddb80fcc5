//! The operator framework for Rust.
//!
//! An operator author writes a reconcile function that brings the actual state to the desired
//! state. This crate provides the rest: watches, caches, workqueues, retries, writes and shutdown.
//!
//! A complete operator, which creates a ConfigMap for each `Greeting`:
//!
//! ```no_run
//! use evenkeel::prelude::*;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
//! #[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
//! struct GreetingSpec {
//!     name: String,
//! }
//!
//! struct Greetings;
//!
//! impl Reconciler for Greetings {
//!     type Object = Greeting;
//!
//!     async fn reconcile(&self, cx: &Context<Greeting>) -> Result<Action> {
//!         let Some(greeting) = cx.object() else { return Ok(Action::done()) };
//!         let mut map = ConfigMap::default();
//!         map.metadata.name = Some(greeting.name_any());
//!         map.data = Some([("text".to_owned(), format!("Hello, {}!", greeting.spec.name))].into());
//!         cx.apply_owned(map).force().await?;
//!         Ok(Action::done())
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let manager = Manager::builder("greeter")
//!         .version(env!("CARGO_PKG_VERSION"))
//!         .crd::<Greeting>()
//!         .connect_with_args()
//!         .await?;
//!     manager.controller(Greetings).owns::<ConfigMap>().register()?;
//!     Ok(manager.run().await?)
//! }
//! ```
//!
//! Data flows in one direction: `API server → watch → cache → predicate → handler → workqueue →
//! worker → reconcile → client → API server`. Sources other than watches add keys to the workqueue.
//! A reconciler receives a [`Key`] and its causes, never an event.
//!
//! The main types:
//! - [`Manager`] starts and stops everything;
//! - [`Reconciler`] is implemented by the author; it receives a [`Context`] and returns an
//!   [`Action`];
//! - [`ControllerBuilder`](controller::ControllerBuilder) configures what a controller watches,
//!   with [`predicate`]s to filter events;
//! - [`webhook`] has defaulters, validators and conversions of objects;
//! - [`Client`](client::Client) reads from the cache and writes to the API server;
//! - [`leader`] elects one of several replicas;
//! - [`cache`], [`queue`] and [`journal`] give access to the internals.
//!
//! # Foreign crates
//!
//! Types of these crates are part of this crate's API; a new major version of one of them is a new
//! major version of this crate. Those that most operators need are re-exported, so that an operator
//! uses the same version:
//!
//! | crate | what is used |
//! |---|---|
//! | [`kube`] | `Client`, `Resource`, `DynamicObject`, `Selector`, `Patch`, `Status`, the derive of custom resources |
//! | [`k8s_openapi`] | the types of Kubernetes; the binary enables the feature of one Kubernetes version |
//! | [`serde`], [`serde_json`] | `Serialize` and `DeserializeOwned` of objects, `Value` in transforms |
//! | [`schemars`] | the schema of [`Conditions`] |
//! | [`jiff`] | `Timestamp` |
//! | `tower`, `http`, `http-body`, `http-body-util`, `bytes` | [`WebhookService`](webhook::WebhookService) is a `Service` of HTTP requests and responses |
//! | `tracing`, `tracing-subscriber` | with the feature `otel`, `otel::layer` returns a `Layer` of a `Subscriber` |
//!
//! [`Source::stream`] takes a `Stream` of `futures`. Everything runs on a `tokio` runtime, but no
//! type of it is in the API. All other dependencies are private; their errors are only returned as
//! [`source`](std::error::Error::source).
//!
//! # Read latency and memory
//!
//! The cache stores each object as the JSON the API server sent and decodes it when it is read.
//! Four options determine the cost of reads, by a factor of up to a hundred:
//!
//! - [`list().entries()`](client::List) and [`Client::peek`](client::Client::peek) return
//!   metadata and JSON without decoding: names, labels and owners are often sufficient.
//! - [`CacheOptions::budget`](cache::CacheOptions::budget) is the number of bytes of decoded
//!   objects kept in memory, 64 MB unless set. A controller that lists a large type repeatedly
//!   needs a budget for all of it: `Manager::builder(name).cache(CacheOptions::new().budget(bytes))`.
//! - [`TypeOptions::eager`](cache::TypeOptions::eager) decodes a type on arrival and keeps it
//!   decoded, outside of the budget.
//! - [`TypeOptions::metadata_only`](cache::TypeOptions::metadata_only) and
//!   [`TypeOptions::view`](cache::TypeOptions::view) store only a part of each object.
//!
//! [`Cache::stats`](cache::Cache::stats) returns the memory use of each type.

// Basic types.
mod error;

mod key;

mod kind;

mod uid;

mod select;

mod version;

mod request_info;

mod clock;

mod fence;

mod random;

mod query;

mod nulls;

mod tasks;

mod redacted;

mod lifecycle;

mod append_map;

pub mod metrics;

mod connect;

mod serve;

// Watches and the cache.
mod watch;

pub mod cache;

// Event handling.
mod source;

pub mod predicate;

mod handler;

// Controllers.
pub mod queue;

pub mod leader;

pub mod controller;

mod clusters;

mod context;

mod reconcile;

// Helpers for reconcilers.
pub mod client;

pub mod owner;

mod child;

mod difference;

pub mod condition;

mod events;

// Webhooks.
pub mod webhook;

// The manager and observability.
pub mod manager;

pub mod journal;

pub mod logging;

mod observe;

#[cfg(feature = "otel")]
pub mod otel;

pub mod manifest;

pub mod schema;

pub use cache::event::ObjectEvent;
pub use child::{AdoptError, OperationResult, child_name};
pub use clock::Clock;
pub use clusters::{Cluster, ClusterSelection, Clusters, EngageError};
pub use condition::{Condition, ConditionStatus, Conditions};
pub use context::{Context, StatusUpdate};
pub use controller::{ControllerHandle, Watch};
pub use error::{BoxError, Error, Result, chain, retry_after, terminal};
pub use events::{EventCounts, EventRecorder, NewEvent, object_reference};
pub use handler::{MapContext, MapLookup};
pub use key::Key;
pub use kind::{AnyObject, Kind, Object, Scope};
pub use manager::Manager;
pub use reconcile::{Action, Reconciler, reconciler_fn};
pub use redacted::Redacted;
pub use source::{KeySender, Source};
pub use uid::Uid;

pub use jiff;
pub use k8s_openapi;
pub use kube;
pub use schemars;
pub use serde;
pub use serde_json;

/// The items that most operators use.
pub mod prelude {
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use kube::{CustomResource, CustomResourceExt, Resource, ResourceExt};

    pub use crate::cache::TypeOptions;
    pub use crate::client::{Client, Patch};
    pub use crate::manager::RegisterError;
    pub use crate::owner::is_controller;
    pub use crate::predicate::{self, Predicate};
    pub use crate::schema::CheckedSchema;
    pub use crate::webhook::{AdmissionRequest, Invalid, Validator, Warnings};
    pub use crate::{
        Action, ClusterSelection, Condition, ConditionStatus, Conditions, Context,
        ControllerHandle, Key, Kind, Manager, MapContext, Reconciler, Result, Source, Watch,
        reconciler_fn, retry_after, terminal,
    };
}
