//! Who an object belongs to.
//!
//! Ownership goes by uid: an object that took a former owner's name owns nothing of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use crate::key::Key;
use crate::kind::{Kind, Object};

/// An ownership that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The owner has not been stored yet, or was read without its uid.
    #[error("{kind} {key} cannot own anything: it has no uid")]
    NoUid {
        /// The owner's type.
        kind: Kind,
        /// The owner.
        key: Key,
    },
    /// A namespaced owner can own objects of its own namespace only.
    #[error("{owner} cannot own {child}: they are not in the same namespace")]
    OtherNamespace {
        /// The owner, as kind and key.
        owner: String,
        /// The object, as kind and key.
        child: String,
    },
    /// Another object is the controller already.
    #[error("{child} is controlled by {kind} {name} already (uid {uid})")]
    Controlled {
        /// The object, as kind and key.
        child: String,
        /// The present controller's kind.
        kind: String,
        /// The present controller's name.
        name: String,
        /// The present controller's uid.
        uid: String,
    },
}

/// Makes `owner` the one controller of `child`: the child goes when the owner does, and its changes
/// are the owner's concern.
///
/// # Errors
/// When the server, or the garbage collector later, would refuse: the owner has no uid, lives in
/// another namespace, or another controller is there.
pub fn set_controller_reference<O: Object, C: Object>(
    owner: &O,
    child: &mut C,
) -> Result<(), OwnerError> {
    let mut reference = reference_for(owner, child)?;
    reference.controller = Some(true);
    reference.block_owner_deletion = Some(true);
    let references = child.meta_mut().owner_references.get_or_insert_default();
    let other = references
        .iter()
        .find(|present| present.controller == Some(true) && present.uid != reference.uid);
    if let Some(other) = other {
        let (kind, name, uid) = (other.kind.clone(), other.name.clone(), other.uid.clone());
        return Err(OwnerError::Controlled { child: describe(child), kind, name, uid });
    }
    insert(references, reference);
    Ok(())
}

/// Makes `owner` one of the owners of `child`: the child goes when the last owner does.
///
/// # Errors
/// When the owner has no uid or lives in another namespace.
pub fn set_owner_reference<O: Object, C: Object>(
    owner: &O,
    child: &mut C,
) -> Result<(), OwnerError> {
    let reference = reference_for(owner, child)?;
    insert(child.meta_mut().owner_references.get_or_insert_default(), reference);
    Ok(())
}

/// Ends an ownership; tells whether there was one.
pub fn remove_owner_reference<O: Object, C: Object>(owner: &O, child: &mut C) -> bool {
    let Some(references) = &mut child.meta_mut().owner_references else { return false };
    let before = references.len();
    references.retain(|reference| Some(&reference.uid) != owner.meta().uid.as_ref());
    references.len() != before
}

/// Whether `owner` is the controller of `child`.
pub fn is_controller<O: Object, C: Object>(owner: &O, child: &C) -> bool {
    let references = child.meta().owner_references.as_deref().unwrap_or_default();
    references.iter().any(|reference| {
        reference.controller == Some(true) && Some(&reference.uid) == owner.meta().uid.as_ref()
    })
}

fn insert(references: &mut Vec<OwnerReference>, reference: OwnerReference) {
    match references.iter_mut().find(|present| present.uid == reference.uid) {
        Some(present) => {
            // A plain owner does not cease to be the controller by being added again.
            let controller = present.controller.filter(|_| reference.controller.is_none());
            *present = OwnerReference {
                controller: reference.controller.or(controller),
                block_owner_deletion: reference
                    .block_owner_deletion
                    .or(present.block_owner_deletion),
                ..reference
            };
        }
        None => references.push(reference),
    }
}

fn reference_for<O: Object, C: Object>(owner: &O, child: &C) -> Result<OwnerReference, OwnerError> {
    let meta = owner.meta();
    let (Some(uid), Some(name)) = (meta.uid.clone(), meta.name.clone()) else {
        return Err(OwnerError::NoUid { kind: Kind::of::<O>(), key: Key::of(owner) });
    };
    let kind = Kind::of::<O>();
    if kind.namespaced() && meta.namespace != child.meta().namespace {
        return Err(OwnerError::OtherNamespace { owner: describe(owner), child: describe(child) });
    }
    Ok(OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind().to_owned(),
        name,
        uid,
        controller: None,
        block_owner_deletion: None,
    })
}

fn describe<K: Object + Resource>(object: &K) -> String {
    format!("{} {}", Kind::of::<K>(), Key::of(object))
}
