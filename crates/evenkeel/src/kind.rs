//! What the runtime must know of a type: its names, its version and its scope.
//!
//! Everything below the typed public interface works on a [`Kind`], so that typed, dynamic and
//! metadata-only users of one type share one watch and one store.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::key::Key;

/// A type of Kubernetes object that is known at compile time: one of `k8s_openapi`, or a struct
/// with `#[derive(CustomResource)]`. There is nothing to implement by hand.
pub trait Object:
    Resource<DynamicType = (), Scope: Scope>
    + Clone
    + fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope: Scope>
        + Clone
        + fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Whether objects of a type live in namespaces.
pub trait Scope {
    /// True for namespaced types.
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

/// A type of object: group, version, kind, plural name and scope.
///
/// ```
/// use evenkeel::Kind;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let kind = Kind::of::<Deployment>();
/// assert_eq!(kind.to_string(), "Deployment.apps");
/// assert_eq!(kind.path(Some("shop")), "/apis/apps/v1/namespaces/shop/deployments");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(Arc<Names>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Names {
    // Borrowed for types known at compile time: asking for a kind copies no text.
    group: Cow<'static, str>,
    version: Cow<'static, str>,
    kind: Cow<'static, str>,
    plural: Cow<'static, str>,
    namespaced: bool,
}

impl Kind {
    /// The kind of a type known at compile time.
    #[must_use]
    pub fn of<K: Object>() -> Self {
        Self(Arc::new(Names {
            group: K::group(&()),
            version: K::version(&()),
            kind: K::kind(&()),
            plural: K::plural(&()),
            namespaced: <K::Scope as Scope>::NAMESPACED,
        }))
    }

    /// The kind of a type found by discovery.
    #[must_use]
    pub fn dynamic(resource: &ApiResource, namespaced: bool) -> Self {
        Self(Arc::new(Names {
            group: resource.group.clone().into(),
            version: resource.version.clone().into(),
            kind: resource.kind.clone().into(),
            plural: resource.plural.clone().into(),
            namespaced,
        }))
    }

    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.0.group
    }

    /// The version within the group.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The kind, as in `Deployment`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// The plural name in URLs, as in `deployments`.
    #[must_use]
    pub fn plural(&self) -> &str {
        &self.0.plural
    }

    /// Whether objects of this kind live in namespaces.
    #[must_use]
    pub fn namespaced(&self) -> bool {
        self.0.namespaced
    }

    /// The `apiVersion` of objects of this kind.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// Whether an owner reference or another version of the type means this kind: group and kind
    /// decide, the version does not.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group() == group && self.kind() == kind
    }

    /// The URL path of the collection, in one namespace or of the whole cluster.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = match self.group() {
            "" => format!("/api/{}", self.version()),
            group => format!("/apis/{group}/{}", self.version()),
        };
        match namespace.filter(|_| self.namespaced()) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural()),
            None => format!("{root}/{}", self.plural()),
        }
    }

    /// The key as objects of this kind have it: without a namespace, where they live in none.
    pub(crate) fn scoped(&self, key: Key) -> Key {
        if self.namespaced() || key.namespace().is_none() { key } else { Key::cluster(key.name()) }
    }

    /// What `kube` calls the type, for its dynamic interface.
    #[must_use]
    pub fn api_resource(&self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group(), self.version(), self.kind());
        ApiResource::from_gvk_with_plural(&gvk, self.plural())
    }
}

impl Kind {
    /// What a 404 for the type itself, not for one of its objects, means.
    pub(crate) fn not_served(&self) -> String {
        match self.group() {
            "" => format!("the API server does not serve {self:?}"),
            _ => format!(
                "the API server does not serve {self:?}: install its CRD, or a version of it that \
                 has {:?}",
                self.version()
            ),
        }
    }
}

/// `Deployment.apps`, or just `Pod` for the core group.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self.group() {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}/{}", self.version())
    }
}
