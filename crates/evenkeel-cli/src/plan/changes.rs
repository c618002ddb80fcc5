//! What an operator wrote: the difference between two states of an API server, with the requests that
//! made it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::audit::Event;
use evenkeel_types::url::Url;
use serde_json::Value;

/// The verbs of requests that write.
pub(super) const WRITES: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];

/// Resources that are not part of a plan: every run writes them.
const LEFT_OUT: &[&str] = &["events", "events.events.k8s.io", "leases.coordination.k8s.io"];

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    /// Plural name and group of the resource, as in `deployments.apps`.
    pub(super) resource: String,
    /// Empty for cluster-scoped objects.
    pub(super) namespace: String,
    /// Empty for a request without a name.
    pub(super) name: String,
}

impl Id {
    pub(super) fn new(resource: &str, namespace: &str, name: &str) -> Self {
        let [resource, namespace, name] = [resource, namespace, name].map(str::to_owned);
        Self { resource, namespace, name }
    }
}

/// The revision of the last write of an object, and the object.
type Stored = (u64, Value);

/// The stored objects.
pub(super) struct State(BTreeMap<Id, Stored>);

impl State {
    /// Reads the objects of a server.
    pub(super) fn of(server: &ApiServer) -> Self {
        let objects = server.stored_objects().into_iter();
        let objects = objects.filter(|object| !LEFT_OUT.contains(&&*object.resource));
        Self(
            objects
                .map(|object| {
                    let id = Id::new(&object.resource, &object.namespace, &object.name);
                    // What the server stores is JSON.
                    let value = serde_json::from_slice(&object.body).unwrap_or_default();
                    (id, (object.revision, value))
                })
                .collect(),
        )
    }
}

/// A request that writes.
#[derive(Clone, Debug)]
pub(super) struct Request {
    id: Id,
    write: Write,
    /// The error of the server.
    error: Option<String>,
}

/// How an object was written, and by which field manager.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Write {
    pub(super) verb: String,
    /// The subresource, or empty.
    pub(super) subresource: String,
    /// The field manager: the name of the controller, unless it sets another one. Deletions have none.
    pub(super) manager: String,
}

impl Request {
    /// Returns the request of an audit event, if it is about a resource. Conflicts are left out, and
    /// deletions of objects that do not exist: controllers repeat or ignore them.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let object = event.object_ref.as_ref()?;
        let resource = match object.api_group.is_empty() {
            true => object.resource.clone(),
            false => format!("{}.{}", object.resource, object.api_group),
        };
        let status = event.response_status.clone().unwrap_or_default();
        let error = match status["code"].as_u64() {
            Some(409) => return None,
            Some(404) if event.verb == "delete" => return None,
            Some(code) if code >= 400 => {
                let message = status["message"].as_str();
                Some(message.map_or_else(|| format!("status {code}"), str::to_owned))
            }
            _ => None,
        };
        let pairs = Url::parse(&event.request_uri).map(|url| url.query_pairs()).unwrap_or_default();
        let manager = pairs.into_iter().find(|(key, _)| key == "fieldManager");
        Some(Self {
            id: Id::new(&resource, &object.namespace, &object.name),
            write: Write {
                verb: event.verb.clone(),
                subresource: object.subresource.clone(),
                manager: manager.map(|(_, value)| value).unwrap_or_default(),
            },
            error,
        })
    }
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Create,
    Update,
    Delete,
    /// It is created and deleted again.
    Transient,
    /// Nothing: all requests are rejected.
    Rejected,
}

/// The change of an object.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) id: Id,
    pub(super) action: Action,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
    /// How often the object was written, and how. Empty if the API server did it, as part of another
    /// write.
    pub(super) writes: BTreeMap<Write, usize>,
    /// Rejected writes with the error of the API server.
    pub(super) rejected: BTreeSet<(Write, String)>,
}

/// Returns the changes between two states, by object.
pub(super) fn between(before: &State, after: &State, requests: &[Request]) -> Vec<Change> {
    let requests = requests.iter().filter(|request| !LEFT_OUT.contains(&&*request.id.resource));
    let mut by_object = BTreeMap::<&Id, Vec<&Request>>::new();
    for request in requests {
        by_object.entry(&request.id).or_default().push(request);
    }
    let mut ids: BTreeSet<&Id> = before.0.keys().chain(after.0.keys()).collect();
    ids.extend(by_object.keys());
    let change = |id: &Id| change(id, before.0.get(id), after.0.get(id), &by_object);
    ids.into_iter().filter_map(change).collect()
}

fn change(
    id: &Id,
    before: Option<&Stored>,
    after: Option<&Stored>,
    requests: &BTreeMap<&Id, Vec<&Request>>,
) -> Option<Change> {
    let (mut writes, mut rejected) = (BTreeMap::new(), BTreeSet::new());
    for request in requests.get(id).into_iter().flatten() {
        match &request.error {
            None => *writes.entry(request.write.clone()).or_default() += 1,
            Some(error) => drop(rejected.insert((request.write.clone(), error.clone()))),
        }
    }
    let wrote = |verb: &str| writes.keys().any(|write: &Write| write.verb == verb);
    let action = match (before, after) {
        (None, Some(_)) => Action::Create,
        (Some(_), None) => Action::Delete,
        (Some((old, _)), Some((new, _))) if old != new => Action::Update,
        (None, None) if wrote("create") && wrote("delete") => Action::Transient,
        _ if !rejected.is_empty() => Action::Rejected,
        _ => return None,
    };
    if action == Action::Delete && writes.is_empty() {
        // A collection is deleted in a namespace or in all.
        let collections = [&*id.namespace, ""].map(|it| Id::new(&id.resource, it, ""));
        let requests = collections.iter().filter_map(|it| requests.get(it)).flatten();
        let mut deleted =
            requests.filter(|it| it.write.verb == "deletecollection" && it.error.is_none());
        writes.extend(deleted.next().map(|it| (it.write.clone(), 1)));
    }
    let object = |state: Option<&Stored>| state.map(|(_, object)| shown(object));
    let mut after = object(after);
    if let (None, Some(created)) = (before, &mut after) {
        // Different in each run.
        remove_meta(created, &["uid", "creationTimestamp"]);
    }
    Some(Change { id: id.clone(), action, before: object(before), after, writes, rejected })
}

/// Returns an object without what every write changes.
fn shown(object: &Value) -> Value {
    let mut object = object.clone();
    remove_meta(&mut object, &["managedFields", "resourceVersion", "generation"]);
    object
}

fn remove_meta(object: &mut Value, fields: &[&str]) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        fields.iter().for_each(|field| drop(meta.remove(*field)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(objects: &[(&str, u64)]) -> State {
        let object = |(name, revision): &(&str, u64)| {
            let value = json!({"metadata": {"name": name, "uid": "1", "managedFields": []}});
            (Id::new("configmaps", "default", name), (*revision, value))
        };
        State(objects.iter().map(object).collect())
    }

    fn request(verb: &str, name: &str, error: Option<&str>) -> Request {
        let write = Write {
            verb: verb.to_owned(),
            subresource: String::new(),
            manager: "greeting".to_owned(),
        };
        let id = Id::new("configmaps", "default", name);
        Request { id, write, error: error.map(str::to_owned) }
    }

    #[test]
    fn changed_revisions_and_rejected_requests_are_changes() {
        let before = state(&[("deleted", 1), ("same", 2), ("updated", 3), ("refused", 4)]);
        let after = state(&[("created", 9), ("same", 2), ("updated", 8), ("refused", 4)]);
        let requests = [
            request("create", "created", None),
            request("patch", "updated", None),
            request("patch", "updated", None),
            request("patch", "same", None),
            request("patch", "refused", Some("is forbidden")),
            request("deletecollection", "", None),
            request("create", "short", None),
            request("delete", "short", None),
        ];
        let changes = between(&before, &after, &requests);
        let found: Vec<_> = changes
            .iter()
            .map(|it| {
                let writes =
                    it.writes.iter().map(|(write, count)| format!("{count} {}", write.verb));
                (&*it.id.name, it.action, writes.collect::<Vec<_>>().join(", "), it.rejected.len())
            })
            .collect();
        assert_eq!(
            found,
            [
                ("created", Action::Create, "1 create".to_owned(), 0),
                ("deleted", Action::Delete, "1 deletecollection".to_owned(), 0),
                ("refused", Action::Rejected, String::new(), 1),
                ("short", Action::Transient, "1 create, 1 delete".to_owned(), 0),
                ("updated", Action::Update, "2 patch".to_owned(), 0),
            ]
        );
        assert_eq!(changes[0].after, Some(json!({"metadata": {"name": "created"}})));
        assert_eq!(changes[4].before, Some(json!({"metadata": {"name": "updated", "uid": "1"}})));
    }
}
