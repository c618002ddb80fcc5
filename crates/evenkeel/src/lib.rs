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
//! - [`controller::Builder`] tells what a controller watches, with [`predicate`]s to choose from;
//! - [`client::Client`] reads from the cache and writes to the API server;
//! - [`cache`], [`queue`] and [`journal`] are what lies between, for those who look inside.

// What everything speaks of.
mod key;

mod kind;

mod uid;

mod clock;

mod random;

mod query;

mod nulls;

mod tasks;

mod connect;

// From the API server to the store.
mod watch;

pub mod cache;

mod event;

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

mod announce;

// What runs it all, and tells of it.
pub mod manager;

pub mod journal;

pub use announce::{About, Announcer};
pub use child::{AdoptError, Changed, child_name};
pub use clock::Clock;
pub use condition::{Condition, Conditions};
pub use controller::{Context, ControllerHandle, Watch};
pub use event::Event;
pub use handler::{Handler, MapContext};
pub use key::Key;
pub use kind::{Kind, Object, Scope};
pub use manager::Manager;
pub use reconcile::{Action, BoxError, Reconciler, Result, objects, retry_after, terminal};
pub use source::{Source, Trigger};
pub use status::Status;
pub use uid::Uid;

pub use k8s_openapi;
pub use kube;

/// What most operators use.
pub mod prelude {
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use kube::{CustomResource, CustomResourceExt, Resource, ResourceExt};

    pub use crate::{
        Action, Condition, Conditions, Context, Key, Manager, Reconciler, Result, predicate,
        retry_after, terminal,
    };
}
