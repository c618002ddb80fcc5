//! Owner references.
//!
//! Owners are identified by uid: an object with the name of a deleted owner is not the owner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::key::Key;
use crate::kind::{AnyObject, Kind, Object};

/// Why an owner reference is invalid.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::owner::{self, OwnerError};
///
/// let unsaved = ConfigMap::default();
/// let error = owner::set_controller_reference(&unsaved, &mut ConfigMap::default()).unwrap_err();
/// assert!(matches!(error, OwnerError::NoUid { .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The owner has no uid: it is not stored yet.
    #[error("{kind} {key} cannot own anything: it has no uid")]
    NoUid {
        /// The owner's type.
        kind: Kind,
        /// The owner.
        key: Key,
    },
    /// A namespaced owner can own only objects in its namespace.
    #[error("{owner} cannot own {child}: they are not in the same namespace")]
    OtherNamespace {
        /// The owner, as kind and key.
        owner: String,
        /// The object, as kind and key.
        child: String,
    },
    /// The object has another controller.
    #[error("{child} is already controlled by {kind} {name} (uid {uid})")]
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

/// Sets `owner` as the controller of `child`, as `controllerutil.SetControllerReference`.
///
/// [`Context::apply_owned`](crate::Context::apply_owned) does so for the reconciled object.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::owner;
///
/// let mut parent = ConfigMap::default();
/// parent.metadata.name = Some("web".to_owned());
/// parent.metadata.uid = Some("4b1e".to_owned());
/// let mut child = ConfigMap::default();
/// owner::set_controller_reference(&parent, &mut child)?;
/// assert!(owner::is_controller(&parent, &child));
/// assert!(owner::remove_owner_reference(&parent, &mut child));
/// # Ok::<(), owner::OwnerError>(())
/// ```
///
/// # Errors
/// When the owner has no uid or is in another namespace, or the child has another controller.
pub fn set_controller_reference<O: Object, C: Object>(
    owner: &O,
    child: &mut C,
) -> Result<(), OwnerError> {
    let (kind, child_kind) = (Kind::of::<O>(), Kind::of::<C>());
    set_controller(&kind, owner.meta(), &child_kind, child.meta_mut())
}

/// Sets the owner as the controller of the child, by kind and metadata.
pub(crate) fn set_controller(
    kind: &Kind,
    owner: &ObjectMeta,
    child_kind: &Kind,
    child: &mut ObjectMeta,
) -> Result<(), OwnerError> {
    let mut reference = reference_for(kind, owner, child_kind, child)?;
    reference.controller = Some(true);
    reference.block_owner_deletion = Some(true);
    let present = child.owner_references.iter().flatten();
    let other = present
        .into_iter()
        .find(|present| present.controller == Some(true) && present.uid != reference.uid);
    if let Some(other) = other {
        let (kind, name, uid) = (other.kind.clone(), other.name.clone(), other.uid.clone());
        return Err(OwnerError::Controlled { child: describe(child_kind, child), kind, name, uid });
    }
    insert(child.owner_references.get_or_insert_default(), reference);
    Ok(())
}

/// Adds `owner` to the owners of `child`, as `controllerutil.SetOwnerReference`.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Node};
/// use evenkeel::owner;
///
/// let mut node = Node::default();
/// node.metadata.name = Some("worker-1".to_owned());
/// assert!(owner::set_owner_reference(&node, &mut ConfigMap::default()).is_err(), "no uid");
/// node.metadata.uid = Some("4b1e".to_owned());
/// owner::set_owner_reference(&node, &mut ConfigMap::default())?;
/// # Ok::<(), owner::OwnerError>(())
/// ```
///
/// # Errors
/// When the owner has no uid or is in another namespace.
pub fn set_owner_reference<O: Object, C: Object>(
    owner: &O,
    child: &mut C,
) -> Result<(), OwnerError> {
    let reference = reference_for(&Kind::of::<O>(), owner.meta(), &Kind::of::<C>(), child.meta())?;
    insert(child.meta_mut().owner_references.get_or_insert_default(), reference);
    Ok(())
}

/// Removes the owner reference to `owner`; returns whether there was one.
pub fn remove_owner_reference<O: AnyObject, C: AnyObject>(owner: &O, child: &mut C) -> bool {
    let Some(references) = &mut child.meta_mut().owner_references else { return false };
    let before = references.len();
    references.retain(|reference| Some(&reference.uid) != owner.meta().uid.as_ref());
    references.len() != before
}

/// Returns whether `owner` is the controller of `child`, as `metav1.IsControlledBy`.
pub fn is_controller<O: AnyObject, C: AnyObject>(owner: &O, child: &C) -> bool {
    let references = child.meta().owner_references.as_deref().unwrap_or_default();
    references.iter().any(|reference| {
        reference.controller == Some(true) && Some(&reference.uid) == owner.meta().uid.as_ref()
    })
}

fn insert(references: &mut Vec<OwnerReference>, reference: OwnerReference) {
    match references.iter_mut().find(|present| present.uid == reference.uid) {
        Some(present) => {
            // Adding a plain owner reference keeps an existing controller reference.
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

fn reference_for(
    kind: &Kind,
    owner: &ObjectMeta,
    child_kind: &Kind,
    child: &ObjectMeta,
) -> Result<OwnerReference, OwnerError> {
    let (Some(uid), Some(name)) = (owner.uid.clone(), owner.name.clone()) else {
        return Err(OwnerError::NoUid { kind: kind.clone(), key: Key::of_meta(owner) });
    };
    if kind.namespaced() && owner.namespace != child.namespace {
        let (owner, child) = (describe(kind, owner), describe(child_kind, child));
        return Err(OwnerError::OtherNamespace { owner, child });
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

fn describe(kind: &Kind, meta: &ObjectMeta) -> String {
    format!("{kind} {}", Key::of_meta(meta))
}
