//! Events: what controllers tell people who look at an object.

use evenkeel::cache::Entry;
use evenkeel::client::{Client, Error};
use evenkeel::{Clock, Key, Kind, Object};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::pods;

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
        Self::new(&Kind::of::<K>(), &Key::of(object), text(&meta.uid), text(&meta.resource_version))
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

/// Something a person should look at.
pub(crate) async fn warn(
    client: &Client,
    clock: &Clock,
    component: &str,
    about: &About,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    send(client, clock, component, about, ("Warning", reason), message).await
}

/// Something that went as it should.
pub(crate) async fn tell(
    client: &Client,
    clock: &Clock,
    component: &str,
    about: &About,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    send(client, clock, component, about, ("Normal", reason), message).await
}

async fn send(
    client: &Client,
    clock: &Clock,
    component: &str,
    About(about): &About,
    (sort, reason): (&str, &str),
    message: &str,
) -> Result<(), Error> {
    let now = clock.now();
    let name = about.name.as_deref().unwrap_or_default();
    let mut event = Event {
        metadata: ObjectMeta {
            // Events of cluster-scoped objects go where everybody looks.
            namespace: Some(about.namespace.clone().unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        involved_object: about.clone(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        type_: Some(sort.to_owned()),
        source: Some(EventSource { component: Some(component.to_owned()), host: None }),
        first_timestamp: Some(pods::stamp(clock)),
        last_timestamp: Some(pods::stamp(clock)),
        count: Some(1),
        reporting_component: Some(component.to_owned()),
        ..Event::default()
    };
    // As client-go names them: the object and the time in hexadecimal nanoseconds. A clock that
    // stands still would give two events one name.
    for moment in now.as_nanosecond().. {
        event.metadata.name = Some(format!("{name}.{moment:x}"));
        match client.create(&event).await {
            Err(error) if error.is_already_exists() => {}
            answer => return answer.map(drop),
        }
    }
    Ok(())
}
