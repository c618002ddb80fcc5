//! The operator framework for Rust.
//!
//! An operator author writes one function that makes reality match intent. This crate brings the
//! rest: it watches, caches, queues, retries, writes and shuts down.
//!
//! Data goes one way: `API server → watch → cache → source → predicate → handler → queue → worker
//! → reconcile → client → API server`. The only thing that crosses from the left half to the right
//! half is a [`Key`] with its causes: a reconciler is told where to look, never what happened.
//!
//! In order of use:
//! - [`Manager`] runs everything and ends it in order;
//! - [`Reconciler`] is what an author writes, [`Context`] what it gets, [`Action`] what it answers;
//! - [`controller::ControllerBuilder`] tells what a controller watches, with [`predicate`]s to choose from;
//! - [`client::Client`] reads from the cache and writes to the API server;
//! - [`cache`], [`queue`] and [`journal`] are what lies between, for those who look inside.
//!
//! # Reads that are fast and memory that is small
//!
//! The cache keeps each object as the bytes the API server sent and decodes it when it is read. Four
//! choices decide what reads cost; between the first and the last lies a factor of about a hundred:
//!
//! - [`list().entries()`](client::List::entries) and [`Client::peek`](client::Client::peek) give
//!   metadata and bytes and decode nothing: names, labels and owners are often all that is needed.
//! - [`CacheOptions::budget`](cache::CacheOptions::budget) is how many bytes of decoded objects stay
//!   in memory, 64 MB unless set. A controller that lists a large type again and again wants room
//!   for all of it: `Manager::builder(name).cache(CacheOptions { budget, .. })`.
//! - [`TypeOptions::eager`](cache::TypeOptions::eager) decodes a type when it arrives and keeps it
//!   decoded, outside of the budget: no first read is slow.
//! - [`TypeOptions::metadata_only`](cache::TypeOptions::metadata_only) and
//!   [`TypeOptions::view`](cache::TypeOptions::view) keep less than the object in the first place.
//!
//! [`Cache::stats`](cache::Cache::stats) tells what each type takes.

// What everything speaks of.
mod error;

mod key;

mod kind;

mod uid;

mod clock;

mod random;

mod query;

mod nulls;

mod tasks;

mod append_map;

mod connect;

// From the API server to the store.
mod watch;

pub mod cache;

mod object_event;

// From events to keys.
mod source;

pub mod predicate;

mod handler;

// From keys to workers.
pub mod queue;

pub mod controller;

mod reconcile;

// What a reconciler works with.
pub mod client;

pub mod owner;

mod child;

mod difference;

mod finalizer;

pub mod condition;

mod status;

mod events;

// What runs it all, and tells of it.
pub mod manager;

pub mod journal;

pub mod logging;

pub mod manifest;

pub use child::{AdoptError, OperationResult, child_name};
pub use clock::Clock;
pub use condition::{Condition, ConditionStatus, Conditions};
pub use controller::{Context, ControllerHandle, Watch};
pub use error::{BoxError, Error, Result, chain};
pub use events::{EventRecorder, object_reference};
pub use handler::{Handler, MapContext};
pub use key::Key;
pub use kind::{Kind, Object, Scope};
pub use manager::Manager;
pub use object_event::ObjectEvent;
pub use reconcile::{Action, Reconciler, reconciler_fn, retry_after, terminal};
pub use source::{KeySender, Source};
pub use status::StatusUpdate;
pub use uid::Uid;

pub use k8s_openapi;
pub use kube;

/// What most operators use.
pub mod prelude {
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use kube::{CustomResource, CustomResourceExt, Resource, ResourceExt};

    pub use crate::cache::TypeOptions;
    pub use crate::{
        Action, Condition, ConditionStatus, Conditions, Context, Key, Manager, Reconciler, Result,
        Watch, predicate, retry_after, terminal,
    };
}
