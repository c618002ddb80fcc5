//! Conditions: an object's own account of how it is, in the form every tool reads.

use std::borrow::Cow;
use std::ops::Deref;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as Stored, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// One statement about an object, as in "Available: True, all replicas are up".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    name: String,
    status: &'static str,
    reason: String,
    message: String,
}

impl Condition {
    /// The statement holds. `reason` is one word for programs, `message` a sentence for people.
    #[must_use]
    pub fn yes(name: &str, reason: &str, message: &str) -> Self {
        Self::new(name, "True", reason, message)
    }

    /// The statement does not hold.
    #[must_use]
    pub fn no(name: &str, reason: &str, message: &str) -> Self {
        Self::new(name, "False", reason, message)
    }

    /// Nobody can tell.
    #[must_use]
    pub fn unknown(name: &str, reason: &str, message: &str) -> Self {
        Self::new(name, "Unknown", reason, message)
    }

    /// The statement holds or not, as `holds` says.
    #[must_use]
    pub fn when(holds: bool, name: &str, reason: &str, message: &str) -> Self {
        Self::new(name, if holds { "True" } else { "False" }, reason, message)
    }

    fn new(name: &str, status: &'static str, reason: &str, message: &str) -> Self {
        let (name, reason, message) = (name.into(), reason.into(), message.into());
        Self { name, status, reason, message }
    }

    /// Puts the statement into `conditions`, as true of `generation`; tells whether anything
    /// changed. The transition time moves only when the status does.
    pub fn set(
        &self,
        conditions: &mut Vec<Stored>,
        generation: Option<i64>,
        now: Timestamp,
    ) -> bool {
        let present = conditions.iter_mut().find(|stored| stored.type_ == self.name);
        let Some(present) = present else {
            conditions.push(self.stored(generation, Time(now)));
            return true;
        };
        let since = if present.status == self.status {
            present.last_transition_time.clone()
        } else {
            Time(now)
        };
        let next = self.stored(generation, since);
        let changed = *present != next;
        *present = next;
        changed
    }

    /// As [`Condition::set`], on conditions of any type: what they have beside is left alone.
    pub(crate) fn set_json(
        &self,
        conditions: &mut Vec<Value>,
        generation: Option<i64>,
        now: Timestamp,
    ) {
        let named = |stored: &&mut Map<String, Value>| {
            stored.get("type").and_then(Value::as_str) == Some(self.name.as_str())
        };
        let present = conditions.iter_mut().filter_map(Value::as_object_mut).find(named);
        let Some(present) = present else {
            conditions.push(json!(self.stored(generation, Time(now))));
            return;
        };
        let since = present.get("lastTransitionTime").is_some_and(|since| !since.is_null());
        let same = present.get("status").and_then(Value::as_str) == Some(self.status);
        if !(since && same) {
            present.insert("lastTransitionTime".to_owned(), json!(Time(now)));
        }
        // Most of the time nothing changes, and then nothing is copied.
        let texts = [("status", self.status), ("reason", &self.reason), ("message", &self.message)];
        for (name, text) in texts {
            if present.get(name).and_then(Value::as_str) != Some(text) {
                present.insert(name.to_owned(), text.into());
            }
        }
        if let Some(generation) = generation {
            present.insert("observedGeneration".to_owned(), generation.into());
        }
    }

    fn stored(&self, generation: Option<i64>, since: Time) -> Stored {
        Stored {
            type_: self.name.clone(),
            status: self.status.to_owned(),
            reason: self.reason.clone(),
            message: self.message.clone(),
            observed_generation: generation,
            last_transition_time: since,
        }
    }
}

/// Whether the statement `name` holds.
#[must_use]
pub fn is_true(conditions: &[Stored], name: &str) -> bool {
    conditions.iter().any(|stored| stored.type_ == name && stored.status == "True")
}

/// The `conditions` of a custom resource's status, with the schema that lets several controllers
/// each keep their own.
///
/// ```
/// use evenkeel::Conditions;
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
/// struct WebsiteStatus {
///     #[serde(default, skip_serializing_if = "Conditions::is_empty")]
///     conditions: Conditions,
/// }
///
/// assert!(!WebsiteStatus::default().conditions.is_true("Ready"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Conditions(Vec<Stored>);

impl Conditions {
    /// Whether nothing is stated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the statement `name` holds.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        is_true(&self.0, name)
    }

    /// The statement `name`, if it was made.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Stored> {
        self.0.iter().find(|stored| stored.type_ == name)
    }
}

impl Deref for Conditions {
    type Target = [Stored];

    fn deref(&self) -> &[Stored] {
        &self.0
    }
}

/// As Kubernetes' own API types have it: a map by type, with the limits of `metav1.Condition`.
impl JsonSchema for Conditions {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Conditions".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["lastTransitionTime", "message", "reason", "status", "type"],
                "properties": {
                    "lastTransitionTime": { "type": "string", "format": "date-time" },
                    "message": { "type": "string", "maxLength": 32768 },
                    "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                    "reason": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 1024,
                        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    },
                    "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                    "type": {
                        "type": "string",
                        "maxLength": 316,
                        "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                    },
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        assert!(Condition::no("Ready", "Starting", "").set(&mut conditions, Some(1), at(1)));
        assert!(Condition::no("Ready", "Pulling", "").set(&mut conditions, Some(1), at(2)));
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert!(!Condition::no("Ready", "Pulling", "").set(&mut conditions, Some(1), at(3)));
        assert!(Condition::yes("Ready", "Up", "").set(&mut conditions, Some(1), at(4)));
        assert_eq!(conditions[0].last_transition_time, Time(at(4)));
        assert!(is_true(&conditions, "Ready"));
    }

    #[test]
    fn conditions_of_other_types_keep_what_only_they_have() {
        let mut conditions = vec![
            json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}),
            json!({"type": "DiskPressure", "status": "False", "lastHeartbeatTime": "x"}),
        ];
        let others = conditions[1].clone();
        let now = Timestamp::from_second(4_000_000_000).unwrap();
        Condition::yes("Ready", "Up", "").set_json(&mut conditions, Some(3), now);
        assert_eq!(conditions[0]["lastHeartbeatTime"], "2026-01-01T00:00:00Z");
        assert_eq!(conditions[0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(conditions[0]["reason"], "Up");
        assert_eq!(conditions[1], others);
        Condition::no("Ready", "Down", "").set_json(&mut conditions, Some(3), now);
        assert_eq!(conditions[0]["lastTransitionTime"], json!(Time(now)));
        Condition::no("New", "Added", "").set_json(&mut conditions, None, now);
        assert_eq!(conditions.len(), 3);
    }

    #[test]
    fn a_newer_generation_is_a_change_without_a_transition() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        Condition::yes("Ready", "Up", "").set(&mut conditions, Some(1), at(1));
        assert!(Condition::yes("Ready", "Up", "").set(&mut conditions, Some(2), at(2)));
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert_eq!(conditions[0].observed_generation, Some(2));
    }
}
