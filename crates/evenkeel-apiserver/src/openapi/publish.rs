//! The documents as they are served: made when first asked for, kept while they hold.
//!
//! The hash in a document's URL is taken over what the document is made from, not over the
//! document: an index can then name all of them without making any.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use super::{Served, Source, Sub, hash, v2_document, v3_document, v3_index, v3_paths};
use crate::registry::Snapshot;
use crate::registry::discovery::Document;
use crate::registry::resource::{Nature, Resource};

/// The documents of one snapshot of the registry.
#[derive(Default)]
pub(crate) struct Published {
    v2: OnceLock<Document>,
    index: OnceLock<Document>,
    v3: Mutex<BTreeMap<String, Arc<Document>>>,
}

impl Published {
    pub(crate) fn v2(&self, snapshot: &Snapshot) -> &Document {
        self.v2.get_or_init(|| {
            with_served(snapshot.resources(), |served| Document::new(&v2_document(served)))
        })
    }

    pub(crate) fn index(&self, snapshot: &Snapshot) -> &Document {
        self.index.get_or_init(|| {
            with_served(snapshot.documented(), |served| {
                let paths = v3_paths(served).into_iter();
                let hashed = paths.map(|path| {
                    let hash = fingerprint(served, &path);
                    (path, hash)
                });
                Document::new(&v3_index(hashed))
            })
        })
    }

    pub(crate) fn v3(&self, snapshot: &Snapshot, path: &str) -> Option<Arc<Document>> {
        let known = self.lock().get(path).cloned();
        if known.is_some() {
            return known;
        }
        let made = with_served(snapshot.documented(), |served| {
            let document = v3_document(served, path)?;
            Some(Arc::new(Document::tagged(&document, &fingerprint(served, path))))
        })?;
        Some(self.lock().entry(path.to_owned()).or_insert(made).clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Document>>> {
        self.v3.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes whenever the document at `path` does: with this version of the server, and with what
/// custom definitions say about that group and version.
fn fingerprint(served: &[Served<'_>], path: &str) -> String {
    let mut facts = format!("{} {path}\n", env!("CARGO_PKG_VERSION"));
    for resource in served {
        let of_path = match resource.group {
            "" => format!("api/{}", resource.version),
            group => format!("apis/{group}/{}", resource.version),
        };
        // Short documents list groups and versions; they change with any of them.
        if !(of_path == path || of_path.starts_with(&format!("{path}/"))) {
            continue;
        }
        facts.push_str(&format!("{of_path} {} {}", resource.plural, resource.kind));
        if let Source::Custom { schema, selectable } = &resource.schema {
            let subresources: Vec<&str> =
                resource.subresources.iter().map(|sub| sub.name).collect();
            facts.push_str(&format!(
                " {} {subresources:?} {selectable:?} {schema}",
                resource.namespaced
            ));
        }
        facts.push('\n');
    }
    hash(facts.as_bytes())
}

fn with_served<'s, T>(
    resources: impl Iterator<Item = &'s Arc<Resource>>,
    f: impl FnOnce(&[Served<'_>]) -> T,
) -> T {
    let served: Vec<Served<'_>> = resources.map(|resource| of(resource)).collect();
    f(&served)
}

fn of(resource: &Resource) -> Served<'_> {
    static NO_SCHEMA: Value = Value::Null;
    let schema = match &resource.nature {
        Nature::Builtin(builtin) => Source::Builtin(builtin.ty),
        Nature::Custom(custom) => Source::Custom {
            schema: custom.openapi.as_ref().unwrap_or(&NO_SCHEMA),
            selectable: custom.selectable.iter().map(|field| &*field.json_path).collect(),
        },
    };
    let subresources = resource.subresources.iter().map(|sub| {
        // One that says nothing of its version has that of the resource.
        let (group, version) = match sub.version {
            "" => (&*resource.group, &*resource.version),
            version => (sub.group, version),
        };
        Sub { name: sub.name, group, version, kind: &sub.kind, verbs: sub.verbs }
    });
    Served {
        group: &resource.group,
        version: &resource.version,
        kind: &resource.kind,
        list_kind: &resource.list_kind,
        plural: &resource.plural,
        namespaced: resource.namespaced,
        verbs: &resource.verbs,
        subresources: subresources.collect(),
        schema,
    }
}
