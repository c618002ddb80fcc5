//! The client: reads from the cache, writes to the API server.
//!
//! A read returns a shared `Arc` from the cache. The response of a write is added to the cache, so
//! that a process reads its own writes. If the outcome of a write is unknown, the next read of the
//! object is a live read. `live()` bypasses the cache.

mod applied;

mod api_request;

mod delete;

mod discovery;

mod dynamic;

mod error;

mod fenced;

mod install;

mod lazy;

mod live;

mod ownership;

mod pending;

mod read;

mod retry;

mod subresource;

mod typed;

mod wait;

mod warnings;

mod withhold;

mod write;

use std::sync::Arc;

pub(crate) use api_request::ApiRequest;
pub use delete::{Delete, DeleteCollection};
pub use dynamic::{Dynamic, DynamicLive};
pub use error::{Error, ErrorKind};
pub use kube::api::{Patch, ValidationDirective};
pub use lazy::LazyList;
pub use live::{Live, LiveList};
pub use read::List;
pub use retry::retry_on_conflict;
pub use subresource::Subresource;
pub use wait::{Wait, WaitError, WaitTimeout};
pub use write::Write;

pub use crate::request_info::{RequestInfo, Target};
pub use crate::select::Select;

use crate::cache::Cache;
use crate::connect::{ConfigError, Transport};
use crate::fence::Fence;
use crate::journal::OperationLog;
use crate::key::Key;
use crate::kind::Kind;
use crate::random::Random;
use applied::Applied;
use bytes::Bytes;
use fenced::FencedClients;
use parking_lot::Mutex;
use warnings::Warnings;

/// A client of one cluster: cached reads, live reads and writes.
///
/// Cheap to clone. A controller's client has the controller's name as field manager.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::{Pod, Secret};
/// # async fn example(manager: &Manager) -> Result<()> {
/// let client = manager.client();
/// let pods = client.list::<Pod>().in_namespace("shop").await?; // from the cache
/// let secret = client.live().get::<Secret>(&Key::namespaced("shop", "token")).await?;
/// client.delete_by_key::<Pod>(&Key::namespaced("shop", "old")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    /// Behind one `Arc`, since each reconcile clones the client.
    shared: Arc<Shared>,
    field_manager: Arc<str>,
    requestor: Requestor,
    /// Records the reads and writes of a reconcile for the journal.
    operations: Option<OperationLog>,
    /// Those of the other clusters, if the client is that of leader-bound work.
    fenced: Option<Arc<FencedClients>>,
}

/// Names the sender of a request, in the extensions of the request.
///
/// A controller's client sends its requests with the name of the controller. A server in the same
/// process can decide by it; it is not sent over the network.
///
/// ```
/// use evenkeel::client::Requestor;
/// use evenkeel::kube::client::Body;
///
/// fn sent_by_greeter<B>(request: &http::Request<B>) -> bool {
///     request.extensions().get::<Requestor>().is_some_and(|requestor| &*requestor.0 == "greeter")
/// }
/// # assert!(!sent_by_greeter(&http::Request::new(Body::empty())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requestor(pub Arc<str>);

struct Shared {
    http: Transport,
    cache: Cache,
    applied: Applied,
    warnings: Warnings,
    /// For generated names.
    random: Mutex<Random>,
}

impl Client {
    /// Creates a client that writes as `field_manager`.
    pub(crate) fn new(http: Transport, cache: Cache, field_manager: &str, random: Random) -> Self {
        let (applied, warnings, random) = (Applied::default(), Warnings::default(), random.into());
        let shared = Arc::new(Shared { http, cache, applied, warnings, random });
        let field_manager: Arc<str> = field_manager.into();
        let requestor = Requestor(field_manager.clone());
        Self { shared, field_manager, requestor, operations: None, fenced: None }
    }

    /// Creates an object that the server responds to but does not store, such as a review; returns
    /// the response.
    pub(crate) async fn review(&self, kind: &Kind, body: Vec<u8>) -> Result<Bytes, Error> {
        let request = ApiRequest::create("create", kind, &Key::cluster(""));
        request.body("application/json", body).send(self).await
    }

    /// Marks the cached state of the object as unknown: the next read of it is a live read.
    fn invalidate(&self, kind: &Kind, key: &Key) {
        // An object without a name cannot be read.
        if !key.name().is_empty() {
            self.shared.cache.invalidate(kind, key);
        }
    }

    /// Returns the same client with another field manager.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(client: &evenkeel::client::Client, map: &ConfigMap) -> Result<()> {
    /// let migration = client.with_field_manager("migration");
    /// migration.apply(map).force().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_field_manager(&self, field_manager: &str) -> Self {
        self.with_shared_field_manager(&field_manager.into())
    }

    /// Same as [`with_field_manager`](Client::with_field_manager), without an allocation.
    pub(crate) fn with_shared_field_manager(&self, field_manager: &Arc<str>) -> Self {
        let field_manager = field_manager.clone();
        let requestor = Requestor(field_manager.clone());
        Self { field_manager, requestor, ..self.clone() }
    }

    /// Returns the same client with another [`Requestor`].
    #[must_use]
    pub fn with_requestor(&self, name: &str) -> Self {
        Self { requestor: Requestor(name.into()), ..self.clone() }
    }

    /// Returns this client for another cluster: with the connection and the cache of `other`. It is
    /// fenced if this client is.
    pub(crate) fn in_cluster(&self, other: &Self) -> Self {
        let shared = match &self.fenced {
            Some(fenced) => fenced.of(other),
            None => other.shared.clone(),
        };
        Self { shared, ..self.clone() }
    }

    /// Returns the same client for leader-bound work: its requests are sent only while this process
    /// is the leader.
    pub(crate) fn fenced(&self, fence: &Fence) -> Self {
        let fenced =
            Self { fenced: Some(Arc::new(FencedClients::new(fence.clone()))), ..self.clone() };
        fenced.in_cluster(self)
    }

    /// Returns the same client with connections of its own.
    pub(crate) async fn separate(&self) -> Result<Self, ConfigError> {
        Ok(self.with_transport(self.shared.http.separate().await?))
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.shared.http
    }

    /// Returns a client of the same cache. It does not share the record of what was applied, without
    /// which an apply is sent although it changes nothing.
    fn with_transport(&self, http: Transport) -> Self {
        let random = Random::new(self.shared.random.lock().next());
        let client = Self::new(http, self.cache().clone(), &self.field_manager, random);
        Self { requestor: self.requestor.clone(), ..client }
    }

    /// Returns the same client, recording its operations for the journal.
    pub(crate) fn recording(&self, operations: OperationLog) -> Self {
        Self { operations: Some(operations), ..self.clone() }
    }

    /// Returns the field manager of this client's writes.
    #[must_use]
    pub fn field_manager(&self) -> &str {
        &self.field_manager
    }

    /// Returns the cache this client reads from.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// Returns the underlying `kube` client.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        self.shared.http.client()
    }

    /// Returns a reader that bypasses the cache.
    #[must_use]
    pub fn live(&self) -> Live<'_> {
        Live::new(self)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("field_manager", &self.field_manager).finish_non_exhaustive()
    }
}
