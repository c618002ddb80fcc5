//! Waits for a state of cached objects, without polling.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::Cache;
use super::entry::Entry;
use super::error::ReadError;
use super::informer::Informer;
use super::query::Query;
use super::reader::LiveReads;
use super::stats::Health;
use crate::key::Key;
use crate::kind::Kind;

/// A registered wait; keeps the informer running.
struct Registration {
    informer: Informer,
    number: u64,
    changed: Arc<Notify>,
}

impl Registration {
    fn new(informer: Informer, key: Option<&Key>) -> Self {
        let changed = Arc::new(Notify::new());
        let waiters = &informer.shared().contents.waiters;
        let number = waiters.add(key.cloned(), changed.clone());
        Self { informer, number, changed }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.informer.shared().contents.waiters.remove(self.number);
    }
}

/// What a wait reads.
pub(crate) enum Waited<'a> {
    /// One object.
    Object(&'a Key),
    /// A list.
    List(Query<'a>),
}

impl Waited<'_> {
    fn read(&self, cache: &Cache, kind: &Kind) -> Result<Vec<Arc<Entry>>, ReadError> {
        match self {
            Self::Object(key) => Ok(cache.get(kind, key)?.into_iter().collect()),
            Self::List(query) => cache.find(kind, query),
        }
    }
}

/// How a wait ended that did not succeed.
pub(crate) struct TimedOut {
    /// What was read last.
    pub(crate) last: Vec<Arc<Entry>>,
    pub(crate) health: Health,
}

impl Cache {
    /// Calls `check` with what is cached, and again after each change, until it returns a value.
    pub(crate) async fn wait_for<T, L: LiveReads>(
        &self,
        kind: &Kind,
        waited: &Waited<'_>,
        deadline: Instant,
        live: &L,
        mut check: impl FnMut(&[Arc<Entry>]) -> Result<Option<T>, L::Error>,
    ) -> Result<Result<T, TimedOut>, L::Error> {
        let key = match waited {
            // The key of a cluster-scoped object may have a namespace.
            Waited::Object(key) => Some(kind.scoped((*key).clone())),
            Waited::List(_) => None,
        };
        let registration = Registration::new(self.reader(kind)?, key.as_ref());
        let mut last = Vec::new();
        let found = async {
            loop {
                last = self.read_through(kind, |cache| waited.read(cache, kind), live).await?;
                if let Some(found) = check(&last)? {
                    return Ok(found);
                }
                registration.changed.notified().await;
            }
        };
        let found = timeout_at(deadline, found).await;
        match found {
            Ok(found) => found.map(Ok),
            Err(_) => Ok(Err(TimedOut { last, health: registration.informer.health() })),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::cache::TypeOptions;
    use crate::cache::tests::TestCache;
    use crate::watch::Sink as _;

    #[tokio::test(start_paused = true)]
    async fn changes_of_the_waited_object_notify_and_others_do_not() {
        let mut test = TestCache::new(TypeOptions::new());
        test.list(1, []);
        assert_eq!(*test.informer.kind(), Kind::of::<ConfigMap>());
        let key = Key::namespaced("default", "a");
        let one = Registration::new(test.informer.clone(), Some(&key));
        let all = Registration::new(test.informer.clone(), None);
        let notified = |it: &Registration| it.changed.notified().now_or_never().is_some();
        assert!(!notified(&one) && !notified(&all));
        let raw = |name: &str, version: u64| {
            format!(
                r#"{{"metadata":{{"namespace":"default","name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#
            )
        };
        test.writer.changed(raw("b", 2).as_bytes());
        assert!(!notified(&one) && notified(&all));
        test.writer.changed(raw("a", 3).as_bytes());
        assert!(notified(&one) && notified(&all));
        // A relist without the object.
        test.list(4, [raw("b", 2).as_bytes()]);
        assert!(notified(&one) && notified(&all));
        assert_eq!(test.informer.shared().contents.waiters.len(), 2);
        drop(one);
        assert_eq!(test.informer.shared().contents.waiters.len(), 1);
        test.cache.stop().await;
        assert!(notified(&all), "so that the wait fails at once");
    }
}
