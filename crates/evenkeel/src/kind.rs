//! Kinds: group, version, kind, plural name and scope of a type.
//!
//! The runtime uses [`Kind`] internally, so that typed, dynamic and metadata-only users of a type
//! share one watch and one store.

use std::any::TypeId;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::append_map::AppendMap;
use crate::key::Key;

/// A Kubernetes type: an [`Object`], whose kind is known at compile time, or a type such as
/// [`DynamicObject`](kube::core::DynamicObject), whose kind is known at run time. Implemented
/// automatically.
///
/// ```
/// use evenkeel::{AnyObject, Key};
/// use evenkeel::kube::core::DynamicObject;
///
/// fn describe<K: AnyObject>(object: &K) -> String {
///     format!("{} with {} labels", Key::of(object), object.meta().labels.iter().flatten().count())
/// }
/// # fn dynamic(object: &DynamicObject) -> String { describe(object) }
/// ```
pub trait AnyObject:
    Resource + Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> AnyObject for K where
    K: Resource + Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// A Kubernetes type that is known at compile time: one of `k8s_openapi`, or a struct with
/// `#[derive(CustomResource)]`. Implemented automatically.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::Secret;
/// use evenkeel::{Kind, Object};
///
/// fn resource<K: Object>() -> String {
///     Kind::of::<K>().plural().to_owned()
/// }
/// assert_eq!(resource::<Secret>(), "secrets");
/// ```
pub trait Object: AnyObject + Resource<DynamicType = (), Scope: Scope> {}

impl<K> Object for K where K: AnyObject + Resource<DynamicType = (), Scope: Scope> {}

/// Whether a type is namespaced.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::{Node, Pod};
/// use evenkeel::kube::Resource;
/// use evenkeel::{Object, Scope};
///
/// fn namespaced<K: Object>() -> bool {
///     <<K as Resource>::Scope as Scope>::NAMESPACED
/// }
/// assert!(namespaced::<Pod>() && !namespaced::<Node>());
/// ```
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
#[derive(Clone)]
pub struct Kind(Source);

/// Every cached read creates a `Kind`, so for a type known at compile time this neither allocates
/// nor counts references.
#[derive(Clone)]
enum Source {
    Compiled(&'static Names),
    Discovered(Arc<Names>),
}

/// The names of the types known at compile time; each is created once.
static COMPILED: AppendMap<TypeId, Names> = AppendMap::new();

struct Names {
    group: Cow<'static, str>,
    version: Cow<'static, str>,
    kind: Cow<'static, str>,
    plural: Cow<'static, str>,
    namespaced: bool,
    /// A digest of the above, for fast comparison and hashing.
    digest: u64,
}

impl Names {
    fn new(
        group: Cow<'static, str>,
        version: Cow<'static, str>,
        kind: Cow<'static, str>,
        plural: Cow<'static, str>,
        namespaced: bool,
    ) -> Self {
        let digest = foldhash::quality::FixedState::default()
            .hash_one((&*group, &*version, &*kind, &*plural, namespaced));
        Self { group, version, kind, plural, namespaced, digest }
    }

    fn parts(&self) -> (&str, &str, &str, &str, bool) {
        (&self.group, &self.version, &self.kind, &self.plural, self.namespaced)
    }
}

impl Kind {
    /// Returns the kind of a type known at compile time.
    #[must_use]
    pub fn of<K: Object>() -> Self {
        Self(Source::Compiled(COMPILED.get_or_insert_with(&TypeId::of::<K>(), || {
            let namespaced = <K::Scope as Scope>::NAMESPACED;
            let (group, version) = (K::group(&()), K::version(&()));
            Names::new(group, version, K::kind(&()), K::plural(&()), namespaced)
        })))
    }

    /// Creates the kind of a type that is known at run time;
    /// [`Client::discover`](crate::client::Client::discover) finds it on the API server.
    ///
    /// ```
    /// use evenkeel::Kind;
    /// use evenkeel::kube::core::{ApiResource, GroupVersionKind};
    ///
    /// let gvk = GroupVersionKind::gvk("example.com", "v1", "Website");
    /// let kind = Kind::dynamic(&ApiResource::from_gvk_with_plural(&gvk, "websites"), true);
    /// assert_eq!(kind.path(Some("shop")), "/apis/example.com/v1/namespaces/shop/websites");
    /// ```
    #[must_use]
    pub fn dynamic(resource: &ApiResource, namespaced: bool) -> Self {
        Self(Source::Discovered(Arc::new(Names::new(
            resource.group.clone().into(),
            resource.version.clone().into(),
            resource.kind.clone().into(),
            resource.plural.clone().into(),
            namespaced,
        ))))
    }

    /// Returns whether the kind is of a type known at compile time.
    pub(crate) fn is_compiled(&self) -> bool {
        matches!(self.0, Source::Compiled(_))
    }

    fn names(&self) -> &Names {
        match &self.0 {
            Source::Compiled(names) => names,
            Source::Discovered(names) => names,
        }
    }

    /// Returns the API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.names().group
    }

    /// Returns the version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.names().version
    }

    /// Returns the kind, such as `Deployment`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.names().kind
    }

    /// Returns the plural name in URLs, such as `deployments`.
    #[must_use]
    pub fn plural(&self) -> &str {
        &self.names().plural
    }

    /// Returns whether the kind is namespaced.
    #[must_use]
    pub fn namespaced(&self) -> bool {
        self.names().namespaced
    }

    /// Returns the `apiVersion` of objects of this kind.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// Returns whether group and kind match, regardless of the version, as in owner references.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group() == group && self.kind() == kind
    }

    /// Returns whether objects of the kind contain credentials, which must not be printed.
    pub(crate) fn is_confidential(&self) -> bool {
        self.is("", "Secret") || self.is("authentication.k8s.io", "TokenReview")
    }

    /// Returns the URL path of the group and version.
    pub(crate) fn group_version_path(&self) -> String {
        match self.group() {
            "" => format!("/api/{}", self.version()),
            group => format!("/apis/{group}/{}", self.version()),
        }
    }

    /// Returns the URL path of the collection, in one namespace or cluster-wide.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = self.group_version_path();
        match namespace.filter(|_| self.namespaced()) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural()),
            None => format!("{root}/{}", self.plural()),
        }
    }

    /// Returns the key without namespace if the kind is cluster-scoped.
    pub(crate) fn scoped(&self, key: Key) -> Key {
        if self.namespaced() || key.namespace().is_none() { key } else { Key::cluster(key.name()) }
    }

    /// Returns the `ApiResource`, for the dynamic API of `kube`.
    #[must_use]
    pub fn api_resource(&self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group(), self.version(), self.kind());
        ApiResource::from_gvk_with_plural(&gvk, self.plural())
    }
}

impl Kind {
    /// Returns the error message for a type that the server does not serve.
    pub(crate) fn not_served(&self) -> String {
        match self.group() {
            "" => format!("the API server does not serve {self:?}"),
            _ => format!(
                "the API server does not serve {self:?}: install its CRD, or a version of the CRD \
                 that serves {:?}",
                self.version()
            ),
        }
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.names(), other.names());
        std::ptr::eq(one, other) || one.digest == other.digest && one.parts() == other.parts()
    }
}

impl Eq for Kind {}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, other) = (self.names(), other.names());
        if std::ptr::eq(one, other) { Ordering::Equal } else { one.parts().cmp(&other.parts()) }
    }
}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.names().digest);
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};

    use super::*;

    #[test]
    fn a_discovered_kind_is_the_compiled_one() {
        let compiled = Kind::of::<Deployment>();
        let discovered = Kind::dynamic(&compiled.api_resource(), true);
        assert_eq!(discovered, compiled);
        assert_eq!(discovered.cmp(&compiled), Ordering::Equal);
        let hash = |kind: &Kind| foldhash::fast::FixedState::default().hash_one(kind);
        assert_eq!(hash(&discovered), hash(&compiled));

        let cluster = Kind::dynamic(&compiled.api_resource(), false);
        assert_ne!(cluster, compiled);
        assert_ne!(Kind::of::<StatefulSet>(), compiled);
        assert!(Kind::of::<StatefulSet>() > compiled);
    }

    #[test]
    fn a_type_has_its_names_once() {
        let (one, other) = (Kind::of::<Deployment>(), Kind::of::<Deployment>());
        assert!(std::ptr::eq(one.names(), other.names()));
    }
}
