//! Reconcilers and their result.

use std::error::Error as StdError;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::client;
use crate::context::Context;
use crate::error::{Error, Result, Retry, RetryPolicy, causes};
use crate::kind::AnyObject;

/// Reconciles objects of one type, one object at a time.
///
/// `reconcile` receives the key of an object, not an event: it compares the desired state with the
/// actual state and acts on the difference. It must be idempotent. An object is never reconciled
/// concurrently with itself.
///
/// ```
/// use evenkeel::prelude::*;
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Greeter;
///
/// impl Reconciler for Greeter {
///     type Object = ConfigMap;
///
///     async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
///         let Some(map) = cx.object() else { return Ok(Action::done()) };
///         println!("hello {}", map.metadata.name.as_deref().unwrap_or_default());
///         Ok(Action::done())
///     }
/// }
/// ```
///
/// # Errors with a type
///
/// `E` is [`Error`] unless stated, which any error converts into. A reconciler with an error type
/// of its own states it; the [journal](crate::journal::Outcome::find) then finds the error by its
/// type:
///
/// ```
/// use evenkeel::BoxError;
/// use evenkeel::client;
/// use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
///
/// #[derive(Debug, thiserror::Error)]
/// enum DnsError {
///     #[error("the zone {0} does not exist")]
///     NoZone(String),
///     #[error("the record is invalid")]
///     Invalid(#[source] BoxError),
///     #[error(transparent)]
///     Client(#[from] client::Error),
/// }
///
/// struct Dns;
///
/// impl Reconciler<DnsError> for Dns {
///     type Object = ConfigMap;
///
///     async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action, DnsError> {
///         let Some(map) = cx.object() else { return Ok(Action::done()) };
///         let data = map.data.as_ref().ok_or_else(|| {
///             DnsError::Invalid(terminal("it has no data").into_boxed()) // not retried
///         })?;
///         let zone = data.get("zone").ok_or_else(|| DnsError::NoZone(String::new()))?;
///         cx.event("Found", zone);
///         Ok(Action::done())
///     }
/// }
///
/// fn register(manager: &Manager) -> Result<()> {
///     manager.controller(Dns).register()?;
///     Ok(())
/// }
/// ```
///
/// # Objects whose kind is known at run time
///
/// With `type Object = DynamicObject` a reconciler handles any kind; see
/// [`Manager::dynamic_controller`](crate::Manager::dynamic_controller).
pub trait Reconciler<E = Error>: Send + Sync + 'static
where
    E: Into<Error> + Send + 'static,
{
    /// The type of object to reconcile.
    type Object: AnyObject;

    /// Reconciles the object of `cx`.
    ///
    /// An error is retried with exponential backoff, unless wrapped by
    /// [`terminal`](crate::terminal) or [`retry_after`](crate::retry_after).
    fn reconcile(
        &self,
        cx: &Context<Self::Object>,
    ) -> impl Future<Output = Result<Action, E>> + Send;
}

/// A shared reconciler.
impl<R: Reconciler<E>, E: Into<Error> + Send + 'static> Reconciler<E> for Arc<R> {
    type Object = R::Object;

    fn reconcile(&self, cx: &Context<R::Object>) -> impl Future<Output = Result<Action, E>> + Send {
        (**self).reconcile(cx)
    }
}

/// Creates a reconciler from a function, which is not called for deleted objects.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::{reconciler_fn, prelude::*};
///
/// let greeter = reconciler_fn(|map: Arc<ConfigMap>, cx: Context<ConfigMap>| async move {
///     println!("hello {}, attempt {}", map.name_any(), cx.failures() + 1);
///     Ok(Action::done())
/// });
/// # fn reconciler(_: impl Reconciler<Object = ConfigMap>) {}
/// # reconciler(greeter);
/// ```
pub fn reconciler_fn<K, F, Fut>(reconcile: F) -> impl Reconciler<Object = K>
where
    K: AnyObject,
    F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action>> + Send + 'static,
{
    ReconcilerFn { reconcile, marker: PhantomData }
}

struct ReconcilerFn<K, F> {
    reconcile: F,
    marker: PhantomData<fn() -> K>,
}

impl<K, F, Fut> Reconciler for ReconcilerFn<K, F>
where
    K: AnyObject,
    F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action>> + Send + 'static,
{
    type Object = K;

    async fn reconcile(&self, cx: &Context<K>) -> Result<Action> {
        match cx.object() {
            Some(object) => (self.reconcile)(object, cx.clone()).await,
            None => Ok(Action::done()),
        }
    }
}

/// What to do with the key after a successful reconcile.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::Action;
///
/// fn next(ready: bool, polled: bool) -> Action {
///     match (ready, polled) {
///         (true, false) => Action::done(),
///         (true, true) => Action::requeue_after(Duration::from_secs(300)),
///         (false, _) => Action::requeue().with_priority(10),
///     }
/// }
/// # next(true, true);
/// ```
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    next: Next,
    priority: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    Requeue,
    After(Duration),
}

impl Action {
    /// The object is reconciled again when something changes.
    #[doc(alias = "await_change")]
    pub const fn done() -> Self {
        Self { next: Next::Done, priority: None }
    }

    /// Requeues the key with rate limiting.
    pub const fn requeue() -> Self {
        Self { next: Next::Requeue, priority: None }
    }

    /// Requeues the key after `delay`, or earlier if something changes.
    ///
    /// Zero requeues immediately. A key in such a loop is throttled to ten reconciles per second,
    /// which raises an [alarm](crate::journal::Alarm::Throttled).
    pub const fn requeue_after(delay: Duration) -> Self {
        Self { next: Next::After(delay), priority: None }
    }

    /// Sets the priority of the next reconcile; that of this reconcile unless set.
    pub const fn with_priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    pub(crate) fn next(self) -> Next {
        self.next
    }

    pub(crate) fn priority(self) -> Option<i32> {
        self.priority
    }
}

/// Returns the retry policy of `error` or of one of its causes.
pub(crate) fn retry_policy(error: &(dyn StdError + 'static)) -> Retry {
    let policy = causes(error).find_map(|cause| {
        if let Some(policy) = cause.downcast_ref::<RetryPolicy>() {
            return Some(policy.retry);
        }
        // The server's Retry-After replaces the backoff.
        cause.downcast_ref::<client::Error>()?.retry_after().map(Retry::After)
    });
    policy.unwrap_or(Retry::BackOff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{BoxError, chain, retry_after, terminal};

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] BoxError);

    #[test]
    fn retry_policy_survives_wrapping() {
        let error = Outer(terminal("inner").into_boxed());
        assert_eq!(retry_policy(&error), Retry::Never);
        let error =
            Outer(Box::new(Outer(retry_after("inner", Duration::from_secs(3)).into_boxed())));
        assert_eq!(retry_policy(&error), Retry::After(Duration::from_secs(3)));
        assert_eq!(retry_policy(&Outer("plain".into())), Retry::BackOff);
    }

    #[test]
    fn retry_policy_survives_transparent_wrapping() {
        #[derive(Debug, thiserror::Error)]
        #[error(transparent)]
        struct Transparent(BoxError);

        let error = Transparent(Box::new(Transparent(terminal("inner").into_boxed())));
        assert_eq!(retry_policy(&error), Retry::Never);
        assert_eq!(chain(&error), "inner");
    }

    #[test]
    fn a_chain_names_every_cause_once() {
        assert_eq!(chain(&Outer(terminal("inner").into_boxed())), "outer: inner");
    }
}
