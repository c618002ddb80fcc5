//! Conversion between the versions of a custom resource.
//!
//! One version is the hub; every other version, a spoke, converts to and from it. A conversion
//! between two spokes takes the way through the hub.

mod review;

use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::crd::merge_crds;
use serde_json::Value;

use crate::error::{BoxError, Result};
use crate::kind::{Kind, Object};
use crate::nulls;

pub(super) use review::{Conversions, LIMIT, refused};

/// The versions of a custom resource and how they are converted: `Hub` is the version that all
/// others are converted from and to, and the one that is stored.
///
/// A spoke implements `TryFrom` or `From` in both directions:
///
/// ```
/// use evenkeel::webhook::Conversion;
///
/// mod v1 {
///     # use evenkeel::prelude::*;
///     # use schemars::JsonSchema;
///     # use serde::{Deserialize, Serialize};
///     #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
///     #[kube(group = "example.com", version = "v1", kind = "Widget")]
///     pub struct WidgetSpec { pub color: String }
/// }
///
/// mod v1beta1 {
///     # use evenkeel::prelude::*;
///     # use schemars::JsonSchema;
///     # use serde::{Deserialize, Serialize};
///     #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
///     #[kube(group = "example.com", version = "v1beta1", kind = "Widget")]
///     pub struct WidgetSpec { pub colour: String }
/// }
///
/// impl From<v1beta1::Widget> for v1::Widget {
///     fn from(old: v1beta1::Widget) -> Self {
///         let spec = v1::WidgetSpec { color: old.spec.colour };
///         Self { metadata: old.metadata, spec }
///     }
/// }
///
/// impl From<v1::Widget> for v1beta1::Widget {
///     fn from(new: v1::Widget) -> Self {
///         let spec = v1beta1::WidgetSpec { colour: new.spec.color };
///         Self { metadata: new.metadata, spec }
///     }
/// }
///
/// let conversion = Conversion::hub::<v1::Widget>().spoke::<v1beta1::Widget>();
/// let old = serde_json::json!({
///     "apiVersion": "example.com/v1beta1", "kind": "Widget",
///     "metadata": {"name": "a"}, "spec": {"colour": "red"},
/// });
/// let new = conversion.convert(&old, "example.com/v1").unwrap();
/// assert_eq!(new["spec"]["color"], "red");
/// ```
///
/// The metadata of the object is kept, except for labels and annotations, which a conversion may
/// change. `Manager::conversion` serves it, and `evenkeel_test::assert_round_trips` tests it for
/// every pair of versions.
pub struct Conversion<Hub = ()> {
    versions: Versions,
    hub: PhantomData<fn(Hub)>,
}

/// The versions without the type of the hub.
pub(super) struct Versions {
    group: String,
    kind: String,
    hub: String,
    by_name: BTreeMap<String, Version>,
    crds: Vec<CustomResourceDefinition>,
    /// A spoke that does not fit the hub.
    problem: Option<String>,
}

type Hubbed = Box<dyn Any + Send>;

struct Version {
    printed: fn(&[u8]) -> Result<Value>,
    into_hub: fn(&[u8]) -> Result<Hubbed>,
    from_hub: fn(Hubbed) -> Result<Value>,
}

impl Conversion {
    /// Starts with the hub.
    #[must_use]
    pub fn hub<Hub: Object + CustomResourceExt>() -> Conversion<Hub> {
        let kind = Kind::of::<Hub>();
        let hub = Version {
            printed: |json| Ok(serde_json::to_value(nulls::decode::<Hub>(json)?)?),
            into_hub: |json| Ok(Box::new(nulls::decode::<Hub>(json)?)),
            from_hub: |hub| Ok(serde_json::to_value(*unboxed::<Hub>(hub)?)?),
        };
        let versions = Versions {
            group: kind.group().to_owned(),
            kind: kind.kind().to_owned(),
            hub: kind.version().to_owned(),
            by_name: [(kind.version().to_owned(), hub)].into(),
            crds: vec![Hub::crd()],
            problem: None,
        };
        Conversion { versions, hub: PhantomData }
    }
}

fn unboxed<Hub: 'static>(hub: Hubbed) -> Result<Box<Hub>> {
    hub.downcast().map_err(|_| "the object is not of the type of the hub".into())
}

impl<Hub: Object + CustomResourceExt> Conversion<Hub> {
    /// Adds a version.
    #[must_use]
    pub fn spoke<S>(mut self) -> Self
    where
        S: Object + CustomResourceExt + TryFrom<Hub, Error: Into<BoxError>>,
        Hub: TryFrom<S, Error: Into<BoxError>>,
    {
        let kind = Kind::of::<S>();
        let versions = &mut self.versions;
        if kind.group() != versions.group || kind.kind() != versions.kind {
            let hub = Kind::of::<Hub>();
            versions.problem = Some(format!("{kind} is not a version of {hub}"));
        }
        let spoke = Version {
            printed: |json| Ok(serde_json::to_value(nulls::decode::<S>(json)?)?),
            into_hub: |json| {
                let spoke = nulls::decode::<S>(json)?;
                Ok(Box::new(Hub::try_from(spoke).map_err(Into::into)?))
            },
            from_hub: |hub| {
                let spoke = S::try_from(*unboxed::<Hub>(hub)?).map_err(Into::into)?;
                Ok(serde_json::to_value(spoke)?)
            },
        };
        if versions.by_name.insert(kind.version().to_owned(), spoke).is_some() {
            let version = kind.api_version();
            versions.problem = Some(format!("{version} of {kind} is added twice"));
        }
        versions.crds.push(S::crd());
        self
    }

    /// Converts an object to another version.
    ///
    /// # Errors
    /// When one of the versions is not known, both are the same, or the conversion fails.
    pub fn convert(&self, object: &Value, to: &str) -> Result<Value> {
        self.versions.convert(object, to)
    }

    /// Returns an object as its type prints it, in its own version.
    ///
    /// # Errors
    /// When the version is not known, or the object does not decode.
    pub fn normalize(&self, object: &Value) -> Result<Value> {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        (self.versions.version(version)?.printed)(&serde_json::to_vec(object)?)
    }

    /// Returns the CRD with all versions; the hub is stored.
    /// [`Manager::set_conversion_webhook`](crate::Manager::set_conversion_webhook) sets its
    /// conversion stanza.
    ///
    /// # Errors
    /// When the versions do not fit together.
    pub fn crd(&self) -> Result<CustomResourceDefinition> {
        self.versions.crd()
    }

    /// Returns the API versions, the hub first.
    #[must_use]
    pub fn api_versions(&self) -> Vec<String> {
        self.versions.api_versions()
    }

    pub(super) fn into_versions(self) -> Versions {
        self.versions
    }
}

impl Versions {
    pub(super) fn group(&self) -> &str {
        &self.group
    }

    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the name of the CRD.
    pub(super) fn crd_name(&self) -> String {
        self.crds.first().and_then(|crd| crd.metadata.name.clone()).unwrap_or_default()
    }

    pub(super) fn crd(&self) -> Result<CustomResourceDefinition> {
        match self.problem() {
            Some(problem) => Err(problem.into()),
            None => Ok(merge_crds(self.crds.clone(), &self.hub)?),
        }
    }

    fn api_versions(&self) -> Vec<String> {
        let spokes = self.by_name.keys().filter(|version| **version != self.hub);
        let all = std::iter::once(&self.hub).chain(spokes);
        all.map(|version| format!("{}/{version}", self.group)).collect()
    }

    fn version(&self, api_version: &str) -> Result<&Version> {
        let version = api_version.strip_prefix(&self.group).and_then(|rest| rest.strip_prefix('/'));
        version.and_then(|version| self.by_name.get(version)).ok_or_else(|| {
            format!("{api_version} of {} has no registered conversion", self.kind).into()
        })
    }

    pub(super) fn convert(&self, object: &Value, to: &str) -> Result<Value> {
        let from = object["apiVersion"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        if kind != self.kind {
            return Err(format!("expected a {}, found {kind:?}", self.kind).into());
        }
        if from == to {
            return Err(format!("conversion is not allowed from {from} to itself").into());
        }
        let (source, target) = (self.version(from)?, self.version(to)?);
        let hub = (source.into_hub)(&serde_json::to_vec(object)?)?;
        let mut converted = (target.from_hub)(hub)?;
        converted["apiVersion"] = to.into();
        converted["kind"] = kind.into();
        converted["metadata"] = metadata(&object["metadata"], &mut converted["metadata"]);
        Ok(converted)
    }
}

/// Returns the metadata of the original with the labels and annotations of the converted object:
/// the API server accepts no other change, and the type may not know all fields.
fn metadata(original: &Value, converted: &mut Value) -> Value {
    let mut kept = original.clone();
    for name in ["labels", "annotations"] {
        match converted.get_mut(name).map(Value::take) {
            Some(value) if !value.is_null() => kept[name] = value,
            _ => {
                if let Some(kept) = kept.as_object_mut() {
                    kept.remove(name);
                }
            }
        }
    }
    kept
}
