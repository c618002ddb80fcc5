//! The served documents, rendered on first use and cached per registry snapshot.
//!
//! The hash in a document's URL is computed from the document's inputs, not from the document, so
//! that the index does not require rendering all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Served, Source, Sub, v2_document, v3_document, v3_index, v3_paths};
use crate::digest;
use crate::registry::Snapshot;
use crate::registry::discovery::Document;
use crate::registry::resource::{Resource, TypeInfo};

/// Returns the v2 document of a snapshot.
pub(crate) fn v2(snapshot: &Snapshot) -> &Document {
    snapshot.openapi().v2.get_or_init(|| {
        with_served(snapshot.resources(), |served| Document::new(&v2_document(served)))
    })
}

/// Returns the index of the v3 documents.
pub(crate) fn index(snapshot: &Snapshot) -> &Document {
    snapshot.openapi().index.get_or_init(|| {
        with_served(snapshot.documented(), |served| {
            let inputs = inputs(served);
            let hashed = v3_paths(served).into_iter().map(|path| {
                let hash = fingerprint(&path, inputs.get(&path).map_or("", String::as_str));
                (path, hash)
            });
            Document::new(&v3_index(hashed))
        })
    })
}

/// Returns the v3 document at `path`.
pub(crate) fn v3(snapshot: &Snapshot, path: &str) -> Option<Arc<Document>> {
    let known = snapshot.openapi().v3().get(path).cloned();
    if known.is_some() {
        return known;
    }
    let make = |served: &[Served<'_>]| {
        let document = v3_document(served, path)?;
        let inputs = inputs(served);
        let inputs = inputs.get(path).map_or("", String::as_str);
        Some(Arc::new(Document::tagged(&document, &fingerprint(path, inputs))))
    };
    let mut steps = path.split('/');
    let made = match (steps.next(), steps.next()) {
        // The document of a group depends on that group only.
        (Some("apis"), Some(group)) => with_served(snapshot.documented_in(group), make),
        (Some("api"), Some(_)) => with_served(snapshot.documented_in(""), make),
        _ => with_served(snapshot.documented(), make),
    }?;
    Some(snapshot.openapi().v3().entry(path.to_owned()).or_insert(made).clone())
}

/// Returns a hash that changes whenever the document at `path` does: with the version of the
/// server, and with the CRDs of that group and version.
fn fingerprint(path: &str, inputs: &str) -> String {
    digest::sha512_hex(format!("{} {path}\n{inputs}", env!("CARGO_PKG_VERSION")).as_bytes())
}

/// Returns the inputs of each document, by its path.
fn inputs(served: &[Served<'_>]) -> BTreeMap<String, String> {
    let mut inputs: BTreeMap<String, String> = BTreeMap::new();
    for resource in served {
        let path = match resource.group {
            "" => format!("api/{}", resource.version),
            group => format!("apis/{group}/{}", resource.version),
        };
        let mut line = format!("{path} {} {}", resource.plural, resource.kind);
        if let Source::Custom { schema, selectable } = &resource.schema {
            let subresources: Vec<&str> =
                resource.subresources.iter().map(|sub| sub.name).collect();
            line.push_str(&format!(
                " {} {subresources:?} {selectable:?} {schema}",
                resource.namespaced
            ));
        }
        line.push('\n');
        // Documents of a group list its versions, and so change with any of them.
        for (end, _) in path.match_indices('/') {
            inputs.entry(path[..end].to_owned()).or_default().push_str(&line);
        }
        inputs.entry(path).or_default().push_str(&line);
    }
    inputs
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
    let schema = match &resource.type_info {
        TypeInfo::Builtin(builtin) => Source::Builtin(builtin.ty),
        TypeInfo::Custom(custom) => Source::Custom {
            schema: custom.openapi.as_ref().unwrap_or(&NO_SCHEMA),
            selectable: custom.selectable.iter().map(|field| &*field.json_path).collect(),
        },
    };
    let subresources = resource.subresources.iter().map(|sub| {
        // Without a version, the subresource has the version of the resource.
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
