//! What is stored, and what was written since: for simulations and tests that check it.

use std::sync::Arc;

use bytes::Bytes;

use super::ApiServer;
use crate::storage::{Compacted, Event, Range, Record};

/// A stored object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredObject {
    /// Plural name and group of the resource, as in `deployments.apps`.
    pub resource: Arc<str>,
    /// The namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The revision of its last write.
    pub revision: u64,
    /// The object as JSON, in the version it is stored in.
    pub body: Bytes,
}

/// A committed write of one object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Commit {
    /// The object after the write; if it was deleted, its last state.
    pub object: StoredObject,
    /// Whether the object was created.
    pub created: bool,
    /// Whether the object was deleted.
    pub deleted: bool,
}

impl ApiServer {
    /// Returns all stored objects, by resource, namespace and name.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = evenkeel_apiserver::ApiServer::builder().build().await?;
    /// assert!(server.stored_objects().iter().any(|it| it.name == "kube-system"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stored_objects(&self) -> Vec<StoredObject> {
        let store = &self.core.store;
        let mut names = store.table_names();
        names.sort();
        let mut objects = Vec::new();
        for name in names {
            // The current revision is never compacted.
            let page = store.table(&name).list(Range::default(), None);
            let records = page.map(|page| page.items).unwrap_or_default();
            objects.extend(records.iter().filter(is_object).map(|record| stored(&name, record)));
        }
        objects
    }

    /// Returns the writes after a revision, in order. Those that were
    /// [compacted](Self::compact) are missing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let server = evenkeel_apiserver::ApiServer::builder().build().await?;
    /// let before = server.revision();
    /// let client = kube::Client::new(server.service(), "default");
    /// let maps = kube::Api::<ConfigMap>::default_namespaced(client);
    /// let map = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}}))?;
    /// maps.create(&Default::default(), &map).await?;
    /// let commits = server.commits_after(before);
    /// assert!(commits[0].created && commits[0].object.name == "a");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn commits_after(&self, revision: u64) -> Vec<Commit> {
        let store = &self.core.store;
        let mut commits = Vec::new();
        for name in store.table_names() {
            let table = store.table(&name);
            let watcher = table
                .watch(None, revision)
                .or_else(|Compacted { compacted, .. }| table.watch(None, compacted));
            let Ok(mut watcher) = watcher else { continue };
            while let Ok(Some(event)) = watcher.try_next() {
                if is_object(&&event.record) {
                    commits.push(commit(&name, &event));
                }
            }
        }
        commits.sort_by_key(|commit| commit.object.revision);
        commits
    }
}

/// Whether a record is an object; tables of the server itself have others.
fn is_object(record: &&Arc<Record>) -> bool {
    record.body.first() == Some(&b'{') && !record.key.name().is_empty()
}

fn commit(table: &str, event: &Event) -> Commit {
    Commit {
        object: stored(table, &event.record),
        created: event.previous.is_none(),
        deleted: event.deleted,
    }
}

fn stored(table: &str, record: &Record) -> StoredObject {
    // The tables are named `group/plural`.
    let resource = match table.split_once('/') {
        Some((group, plural)) if !group.is_empty() => format!("{plural}.{group}").into(),
        _ => table.trim_start_matches('/').into(),
    };
    StoredObject {
        resource,
        namespace: record.key.namespace().to_owned(),
        name: record.key.name().to_owned(),
        revision: record.revision,
        body: record.body.clone(),
    }
}
