//! Options of the cache and of its types.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use kube::core::Selector;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::entry::{Form, Typed};
use super::error::DeclareError;
use super::query::Fields;
use crate::kind::Kind;
use crate::nulls;

/// The options of a cache.
///
/// ```
/// use evenkeel::cache::CacheOptions;
///
/// let options = CacheOptions::new().namespaces(["shop", "pay"]).budget(256 << 20);
/// assert_eq!(options.budget, 256 << 20);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CacheOptions {
    /// The namespaces of namespaced types that are declared without namespaces; all unless set. The
    /// operator needs permissions only in these namespaces.
    pub namespaces: Option<BTreeSet<String>>,
    /// The maximum size of decoded objects that are kept in memory. 64 MB.
    pub budget: usize,
    /// The resync interval, with 10 % jitter. 10 hours.
    pub resync: Duration,
    /// The timeout of the initial list. 2 minutes.
    pub sync_timeout: Duration,
    /// Whether undeclared types are cached from their first read. For tests and tools; an operator
    /// should declare its types. Off unless set.
    pub on_demand: bool,
    /// The range of the random timeout of watches. 30 to 40 seconds: a connection without data for
    /// five seconds more is considered dead.
    pub watch_timeout: Range<Duration>,
    /// The seed of jitter; random unless set.
    pub seed: Option<u64>,
}

impl CacheOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the [namespaces](Self::namespaces) of types that are declared without.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = Some(namespaces.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the [maximum size](Self::budget) of decoded objects in bytes.
    #[must_use]
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// Sets the [resync](Self::resync) interval.
    #[must_use]
    pub fn resync(mut self, interval: Duration) -> Self {
        self.resync = interval;
        self
    }

    /// Sets the [timeout](Self::sync_timeout) of the initial list.
    #[must_use]
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// Caches undeclared types [from their first read](Self::on_demand).
    #[must_use]
    pub fn on_demand(mut self) -> Self {
        self.on_demand = true;
        self
    }

    /// Sets the range of the random [timeout](Self::watch_timeout) of watches.
    #[must_use]
    pub fn watch_timeout(mut self, timeout: Range<Duration>) -> Self {
        self.watch_timeout = timeout;
        self
    }

    /// Sets the [seed](Self::seed) of jitter.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Returns the defaults for a server in the same process: there is no connection that could
    /// die, so watches last five to ten minutes.
    #[must_use]
    pub fn in_process() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self { watch_timeout: minutes(5)..minutes(10), ..Self::default() }
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            namespaces: None,
            budget: 64 << 20,
            resync: Duration::from_secs(10 * 3600),
            sync_timeout: Duration::from_secs(120),
            on_demand: false,
            watch_timeout: Duration::from_secs(30)..Duration::from_secs(40),
            seed: None,
        }
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type OnValue = dyn Fn(&mut Value) -> Result<(), Failure> + Send + Sync;
type OnBytes = dyn Fn(&[u8]) -> Result<Vec<u8>, Failure> + Send + Sync;

/// A transform of each object before it is stored.
#[derive(Clone)]
pub(super) enum Transform {
    Value(Arc<OnValue>),
    Bytes(Arc<OnBytes>),
}

impl Transform {
    /// Returns the transformed object, or the error message.
    pub(super) fn apply(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Value(change) => {
                let mut value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
                change(&mut value).map_err(|error| error.to_string())?;
                serde_json::to_vec(&value).map_err(|error| error.to_string())
            }
            Self::Bytes(change) => change(body).map_err(|error| error.to_string()),
        }
    }

    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(one), Self::Value(other)) => Arc::ptr_eq(one, other),
            (Self::Bytes(one), Self::Bytes(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// Decodes objects on arrival.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    id: TypeId,
    pub(super) name: &'static str,
    pub(super) decode: fn(&[u8]) -> Result<Typed, serde_json::Error>,
}

impl Decoder {
    fn of<T: DeserializeOwned + Send + Sync + 'static>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
            decode: |body| {
                let typed: Arc<T> = Arc::new(nulls::decode(body)?);
                Ok(typed as Arc<dyn Any + Send + Sync>)
            },
        }
    }
}

/// The options of a cached type. By default all objects are cached whole.
///
/// ```
/// use evenkeel::cache::TypeOptions;
///
/// let options = TypeOptions::new().namespaces(["shop", "pay"]).metadata_only();
/// # let _ = options;
/// ```
#[derive(Clone, Default)]
pub struct TypeOptions {
    pub(super) namespaces: Option<BTreeSet<String>>,
    /// The declaring controller, for error messages.
    pub(super) by: Option<Arc<str>>,
    pub(super) labels: Selector,
    pub(super) fields: Fields,
    pub(super) transform: Option<Transform>,
    pub(super) metadata_only: bool,
    pub(super) keep_managed_fields: bool,
    pub(super) eager: Option<Decoder>,
    pub(super) view: Option<Decoder>,
    pub(super) resync: Option<Duration>,
    pub(super) optional: bool,
    pub(super) cluster_wide_secrets: bool,
}

impl TypeOptions {
    /// Returns the default options: all objects, whole.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Caches only these namespaces. They can be changed later.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Caches only objects that match the label selector.
    #[must_use]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.labels = selector;
        self
    }

    /// Caches only objects that match the field selector, such as
    /// `status.phase=Running,spec.nodeName!=`. The server defines the supported fields of a type.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Fields::new(selector.into());
        self
    }

    /// Transforms each object once before it is stored. If it fails, the object is not cached and
    /// an error is logged. It must not change name, namespace, uid or resourceVersion.
    #[must_use]
    pub fn transform<F, E>(mut self, change: F) -> Self
    where
        F: Fn(&mut Value) -> Result<(), E> + Send + Sync + 'static,
        E: Into<Failure>,
    {
        self.transform =
            Some(Transform::Value(Arc::new(move |value| change(value).map_err(Into::into))));
        self
    }

    /// Same as [`TypeOptions::transform`], on the JSON text of the object.
    #[must_use]
    pub fn transform_bytes<F, E>(mut self, change: F) -> Self
    where
        F: Fn(&[u8]) -> Result<Vec<u8>, E> + Send + Sync + 'static,
        E: Into<Failure>,
    {
        self.transform =
            Some(Transform::Bytes(Arc::new(move |body| change(body).map_err(Into::into))));
        self
    }

    /// Requests and caches only metadata.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// Keeps managedFields, which often doubles the size of an object.
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.keep_managed_fields = true;
        self
    }

    /// Decodes objects on arrival and keeps them decoded: more memory, no slow first read.
    #[must_use]
    pub fn eager<K: DeserializeOwned + Send + Sync + 'static>(mut self) -> Self {
        self.eager = Some(Decoder::of::<K>());
        self
    }

    /// Stores only `V`, decoded from each object; objects are read as `V`.
    #[must_use]
    pub fn view<V: DeserializeOwned + Send + Sync + 'static>(mut self) -> Self {
        self.view = Some(Decoder::of::<V>());
        self
    }

    /// Sets the resync interval of the type.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Makes the type optional: its CRD may be added and removed while the program runs.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Allows caching all Secrets of the cluster.
    #[must_use]
    pub fn cluster_wide_secrets(mut self) -> Self {
        self.cluster_wide_secrets = true;
        self
    }

    pub(super) fn form(&self) -> Form {
        match self.view {
            Some(view) => Form::View(view.name),
            None if self.metadata_only => Form::Metadata,
            None => Form::Whole,
        }
    }

    /// Sets the declaring controller.
    pub(crate) fn declared_by(mut self, controller: &str) -> Self {
        self.by = Some(controller.into());
        self
    }

    /// Returns these options with the default namespaces of the cache.
    pub(super) fn within(mut self, kind: &Kind, namespaces: Option<&BTreeSet<String>>) -> Self {
        if self.namespaces.is_none() && kind.namespaced() {
            self.namespaces = namespaces.cloned();
        }
        self
    }

    /// Checks that these options are valid for `kind`.
    pub(super) fn check(&self, kind: &Kind) -> Result<(), DeclareError> {
        let invalid = |problem: &'static str| {
            Err(DeclareError::Invalid { kind: kind.clone(), problem: problem.into() })
        };
        if self.namespaces.is_some() && !kind.namespaced() {
            return invalid("the type is cluster-scoped");
        }
        if self.namespaces.as_ref().is_some_and(|names| names.iter().any(String::is_empty)) {
            return invalid("a namespace is empty; omit `namespaces` for all of them");
        }
        if self.eager.is_some() && self.view.is_some() {
            return invalid("`eager` and `view` are mutually exclusive: a view is always eager");
        }
        if self.metadata_only && self.eager.is_some() {
            return invalid("`eager` needs whole objects and excludes `metadata_only`");
        }
        if let Err(problem) = self.fields.terms() {
            return Err(DeclareError::Invalid { kind: kind.clone(), problem: problem.into() });
        }
        let all = self.namespaces.is_none()
            && self.labels.selects_all()
            && self.fields.is_empty()
            && !self.metadata_only;
        if kind.is("", "Secret") && all && !self.cluster_wide_secrets {
            return Err(DeclareError::Secrets);
        }
        Ok(())
    }

    /// Returns a description of the first difference, if any.
    pub(super) fn conflict(&self, other: &Self) -> Option<String> {
        let differ = |name: &str, one: &dyn fmt::Debug, other: &dyn fmt::Debug| {
            Some(format!("`{name}` is {one:?} here and {other:?} there"))
        };
        let id = |decoder: &Option<Decoder>| decoder.map(|decoder| decoder.id);
        let name = |decoder: &Option<Decoder>| decoder.map(|decoder| decoder.name);
        if self.namespaces != other.namespaces {
            return differ("namespaces", &self.namespaces, &other.namespaces);
        }
        if self.labels != other.labels {
            return differ("labels", &self.labels.to_string(), &other.labels.to_string());
        }
        if self.fields != other.fields {
            return differ("fields", &self.fields.text(), &other.fields.text());
        }
        let same = match (&self.transform, &other.transform) {
            (None, None) => true,
            (Some(one), Some(other)) => one.same(other),
            _ => false,
        };
        if !same {
            return Some("`transform` is not the same function".to_owned());
        }
        if id(&self.eager) != id(&other.eager) {
            return differ("eager", &name(&self.eager), &name(&other.eager));
        }
        if id(&self.view) != id(&other.view) {
            return differ("view", &name(&self.view), &name(&other.view));
        }
        if self.resync != other.resync {
            return differ("resync", &self.resync, &other.resync);
        }
        for (name, one, other) in [
            ("metadata_only", self.metadata_only, other.metadata_only),
            ("keep_managed_fields", self.keep_managed_fields, other.keep_managed_fields),
            ("optional", self.optional, other.optional),
            ("cluster_wide_secrets", self.cluster_wide_secrets, other.cluster_wide_secrets),
        ] {
            if one != other {
                return differ(name, &one, &other);
            }
        }
        None
    }
}

impl fmt::Debug for TypeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypeOptions")
            .field("namespaces", &self.namespaces)
            .field("labels", &self.labels.to_string())
            .field("fields", &self.fields.text())
            .field("transform", &self.transform.is_some())
            .field("metadata_only", &self.metadata_only)
            .field("keep_managed_fields", &self.keep_managed_fields)
            .field("eager", &self.eager.map(|decoder| decoder.name))
            .field("view", &self.view.map(|decoder| decoder.name))
            .field("resync", &self.resync)
            .field("optional", &self.optional)
            .finish_non_exhaustive()
    }
}
