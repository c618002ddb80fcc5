//! Tests of the fields that a status update sets, and of its conversions.

use std::borrow::Cow;
use std::cell::Cell;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use super::*;

thread_local! {
    static CONVERSIONS: Cell<usize> = const { Cell::new(0) };
}

/// A Deployment whose conversions are counted.
#[derive(Clone, Debug, Default)]
struct Counted(Deployment);

impl Serialize for Counted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CONVERSIONS.set(CONVERSIONS.get() + 1);
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CONVERSIONS.set(CONVERSIONS.get() + 1);
        Deployment::deserialize(deserializer).map(Self)
    }
}

impl kube::Resource for Counted {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Deployment".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "apps".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "deployments".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

fn status(message: &str) -> Map<String, Value> {
    let status = json!({ "observedGeneration": 3, "conditions": [{
        "type": "Ready", "status": "True", "reason": "Up", "message": message,
        "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    let Value::Object(status) = status else { panic!("{status}") };
    status
}

#[test]
fn type_is_decoded_once() {
    let fields = StatusFields::default();
    let kept = fields.kept(&Counted::default(), status("first"), true, true);
    assert_eq!(kept["observedGeneration"], 3);
    assert!(kept["conditions"][0].get("observedGeneration").is_none());
    assert!(fields.observed.is_kept() && fields.conditions.is_changed());
    // Encoded and decoded whole, and the status extracted.
    assert_eq!(CONVERSIONS.take(), 3);

    // The dropped fields are known now.
    let mut expected = kept;
    expected["conditions"][0]["message"] = json!("second");
    let kept = fields.kept(&Counted::default(), status("second"), true, true);
    assert_eq!(kept, expected);
    let mut other = Map::new();
    other.insert("unknown".to_owned(), json!(1));
    assert_eq!(fields.kept(&Counted::default(), other.clone(), true, false), other);
    assert_eq!(CONVERSIONS.take(), 0);
}

#[test]
fn observed_generation_that_the_type_drops_is_not_set_again() {
    let fields = StatusFields::default();
    let kept = fields.kept(&Node::default(), status(""), true, true);
    assert!(kept.get("observedGeneration").is_none());
    assert!(fields.lacks_observed_generation());
}

#[test]
fn automatic_fields_are_reduced_until_the_server_accepts_them() {
    let fields = StatusFields::default();
    assert_eq!(fields.automatic(), Automatic::All);
    assert!(fields.reduce(Automatic::All));
    assert_eq!(fields.automatic(), Automatic::Conditions);
    assert!(fields.reduce(Automatic::Conditions));
    // The rejection has another reason.
    assert!(!fields.reduce(Automatic::None));
    assert_eq!(fields.automatic(), Automatic::All);

    assert!(fields.reduce(Automatic::All));
    fields.confirm(Automatic::Conditions);
    assert!(!fields.reduce(Automatic::Conditions));
    assert_eq!(fields.automatic(), Automatic::Conditions);
}
