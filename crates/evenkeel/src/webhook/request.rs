//! The request of an AdmissionReview.

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::{GroupVersionKind, GroupVersionResource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::nulls;

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is updated or patched.
    Update,
    /// An object is deleted.
    Delete,
    /// A connect request, such as `exec`.
    Connect,
}

impl Operation {
    /// Returns the name in rules: `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// An admission request: what is requested, and by which user.
///
/// The objects are kept as JSON and decoded by [`object`](Self::object) and
/// [`old_object`](Self::old_object).
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::prelude::*;
///
/// /// Only administrators may change the data.
/// fn validate(map: &ConfigMap, request: &AdmissionRequest) -> Result<Warnings> {
///     let groups = request.user_info.groups.iter().flatten();
///     let old = request.old_object::<ConfigMap>()?;
///     let changed = old.is_some_and(|old| old.data != map.data);
///     if changed && !groups.into_iter().any(|group| group == "system:masters") {
///         return Err("data may not be changed".into());
///     }
///     Ok(Warnings::new())
/// }
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AdmissionRequest {
    /// Identifies the request; the response carries the same uid.
    pub uid: String,
    /// The kind of the object.
    pub kind: GroupVersionKind,
    /// The resource of the request.
    pub resource: GroupVersionResource,
    /// The subresource, such as `status` or `scale`.
    #[serde(default)]
    pub sub_resource: Option<String>,
    /// The kind of the original request, if the API server converted the object.
    #[serde(default)]
    pub request_kind: Option<GroupVersionKind>,
    /// The resource of the original request.
    #[serde(default)]
    pub request_resource: Option<GroupVersionResource>,
    /// The subresource of the original request.
    #[serde(default)]
    pub request_sub_resource: Option<String>,
    /// The name of the object; empty if the API server is to generate it.
    #[serde(default)]
    pub name: String,
    /// The namespace, unless the object is cluster-scoped.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The operation.
    pub operation: Operation,
    /// The user of the request.
    #[serde(default)]
    pub user_info: UserInfo,
    /// Whether the result is not persisted, so that there must be no side effects.
    #[serde(default)]
    pub dry_run: bool,
    #[serde(default)]
    object: Option<Box<RawValue>>,
    #[serde(default)]
    old_object: Option<Box<RawValue>>,
    #[serde(default)]
    options: Option<Box<RawValue>>,
}

impl AdmissionRequest {
    /// Returns the JSON of the new object; `None` for DELETE.
    #[must_use]
    pub fn object_json(&self) -> Option<&str> {
        self.object.as_deref().map(RawValue::get)
    }

    /// Returns the JSON of the existing object; `None` for CREATE and CONNECT.
    #[must_use]
    pub fn old_object_json(&self) -> Option<&str> {
        self.old_object.as_deref().map(RawValue::get)
    }

    /// Returns the JSON of the options, such as `CreateOptions`.
    #[must_use]
    pub fn options_json(&self) -> Option<&str> {
        self.options.as_deref().map(RawValue::get)
    }

    /// Decodes the new object; `None` for DELETE.
    ///
    /// # Errors
    /// When it is not a `K`.
    pub fn object<K: DeserializeOwned>(&self) -> Result<Option<K>, serde_json::Error> {
        self.object_json().map(|json| nulls::decode(json.as_bytes())).transpose()
    }

    /// Decodes the existing object; `None` for CREATE and CONNECT.
    ///
    /// # Errors
    /// When it is not a `K`.
    pub fn old_object<K: DeserializeOwned>(&self) -> Result<Option<K>, serde_json::Error> {
        self.old_object_json().map(|json| nulls::decode(json.as_bytes())).transpose()
    }
}
