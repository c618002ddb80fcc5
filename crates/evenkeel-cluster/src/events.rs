//! Events: what controllers tell people who look at an object.
//!
//! What is told again is counted in the event that is there, and what is told all the time is told
//! now and then only, as client-go's recorder does it.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::cache::Entry;
use evenkeel::client::{Client, Error, Patch};
use evenkeel::{Clock, Key, Kind, Manager, Object};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde_json::json;

use crate::pods;

/// How many events are remembered to be counted on.
const REMEMBERED: usize = 4096;

/// How often the same is told before it is told only once in each [`PAUSE`].
const BURST: i32 = 25;
const PAUSE: Duration = Duration::from_secs(300);

/// Records events of one controller.
pub(crate) struct Recorder {
    component: &'static str,
    client: Client,
    clock: Clock,
    told: Mutex<BTreeMap<Id, Told>>,
}

/// Object, reason and message.
type Id = (Option<String>, String, String);

#[derive(Clone)]
struct Told {
    key: Key,
    count: i32,
    last: Timestamp,
}

/// What an event is about.
pub(crate) struct About(ObjectReference);

impl About {
    /// A cached object.
    pub(crate) fn entry(entry: &Entry) -> Self {
        let meta = entry.meta();
        Self::new(entry.kind(), meta.key(), meta.uid().to_string(), meta.version().to_string())
    }

    /// An object of a type known at compile time.
    pub(crate) fn object<K: Object>(object: &K) -> Self {
        let meta = object.meta();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (uid, version) = (text(&meta.uid), text(&meta.resource_version));
        Self::new(&Kind::of::<K>(), &Key::of(object), uid, version)
    }

    fn new(kind: &Kind, key: &Key, uid: String, version: String) -> Self {
        Self(ObjectReference {
            api_version: Some(kind.api_version()),
            kind: Some(kind.kind().to_owned()),
            name: Some(key.name().to_owned()),
            namespace: key.namespace().map(str::to_owned),
            uid: Some(uid),
            resource_version: Some(version),
            field_path: None,
        })
    }
}

impl Recorder {
    pub(crate) fn new(manager: &Manager, component: &'static str) -> Self {
        Self {
            component,
            client: manager.client().with_owner(component),
            clock: manager.clock().clone(),
            told: Mutex::default(),
        }
    }

    /// Something a person should look at.
    pub(crate) async fn warn(&self, about: &About, reason: &str, message: &str) {
        self.record(about, "Warning", reason, message).await;
    }

    /// Something that went as it should.
    pub(crate) async fn tell(&self, about: &About, reason: &str, message: &str) {
        self.record(about, "Normal", reason, message).await;
    }

    /// An event that is lost is no reason to stop work.
    async fn record(&self, about: &About, sort: &str, reason: &str, message: &str) {
        let id = (about.0.uid.clone(), reason.to_owned(), message.to_owned());
        let told = self.told.lock().get(&id).cloned();
        let written = match told {
            Some(told) if told.count >= BURST && self.clock.since(told.last) < PAUSE => return,
            Some(told) => self.count(told).await,
            None => Ok(None),
        };
        let written = match written {
            Ok(None) => self.create(about, sort, reason, message).await,
            Ok(Some(told)) => Ok(told),
            Err(error) => Err(error),
        };
        match written {
            Ok(now) => {
                let mut told = self.told.lock();
                if told.len() >= REMEMBERED {
                    told.clear();
                }
                told.insert(id, now);
            }
            // Nobody looks at a namespace that ends.
            Err(error) if error.is_forbidden() || error.is_not_found() => {}
            Err(error) => tracing::warn!(%error, reason, message, "an event is lost"),
        }
    }

    /// Counts what was told before; none if that event is gone.
    async fn count(&self, told: Told) -> Result<Option<Told>, Error> {
        let count = told.count.saturating_add(1);
        let patch = json!({"count": count, "lastTimestamp": pods::stamp(&self.clock)});
        match self.client.patch::<Event>(&told.key, &Patch::Merge(patch)).await {
            Ok(_) => Ok(Some(Told { count, last: self.clock.now(), ..told })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(
        &self,
        About(about): &About,
        sort: &str,
        reason: &str,
        message: &str,
    ) -> Result<Told, Error> {
        let now = self.clock.now();
        let name = about.name.as_deref().unwrap_or_default();
        // Events of cluster-scoped objects go where everybody looks.
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let mut event = Event {
            metadata: ObjectMeta { namespace: Some(namespace.to_owned()), ..ObjectMeta::default() },
            involved_object: about.clone(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            type_: Some(sort.to_owned()),
            source: Some(EventSource { component: Some(self.component.to_owned()), host: None }),
            first_timestamp: Some(pods::stamp(&self.clock)),
            last_timestamp: Some(pods::stamp(&self.clock)),
            count: Some(1),
            reporting_component: Some(self.component.to_owned()),
            ..Event::default()
        };
        // As client-go names them: the object and the time in hexadecimal nanoseconds. A clock that
        // stands still would give two events one name.
        let mut moment = now.as_nanosecond();
        loop {
            let name = format!("{name}.{moment:x}");
            event.metadata.name = Some(name.clone());
            match self.client.create(&event).await {
                Err(error) if error.is_already_exists() => moment += 1,
                Err(error) => return Err(error),
                Ok(_) => {
                    let key = Key::namespaced(namespace, &name);
                    return Ok(Told { key, count: 1, last: now });
                }
            }
        }
    }
}
