//! Status conditions.

use std::borrow::Cow;
use std::ops::Deref;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as Stored, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A status condition to set on an object, such as `Available: True`.
///
/// [`Context::status`](crate::Context::status) sets it on the reconciled object:
///
/// ```no_run
/// # use evenkeel::k8s_openapi::api::apps::v1::Deployment;
/// use evenkeel::prelude::*;
///
/// # async fn example(cx: &Context<Deployment>, web: &Deployment) -> Result<()> {
/// let ready = Condition::new("Ready", true, "AllReplicasReady", "3 of 3 replicas are ready");
/// cx.status(web).condition(ready).write().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    type_: String,
    status: ConditionStatus,
    reason: String,
    message: String,
}

/// The status of a condition: `True`, `False` or `Unknown`.
///
/// ```
/// use evenkeel::{Condition, ConditionStatus};
///
/// fn ready(observed: Option<bool>) -> Condition {
///     let status = observed.map_or(ConditionStatus::Unknown, ConditionStatus::from);
///     Condition::new("Ready", status, "Observed", "")
/// }
/// # ready(None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// The controller cannot decide whether the condition is met.
    Unknown,
}

impl ConditionStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(met: bool) -> Self {
        if met { Self::True } else { Self::False }
    }
}

impl Condition {
    /// Creates a condition. `reason` is one word in CamelCase, `message` a sentence for users.
    ///
    /// ```
    /// use evenkeel::condition::{Condition, ConditionStatus};
    ///
    /// Condition::new("Ready", true, "AllReplicasReady", "3 of 3 replicas are ready");
    /// Condition::new("Ready", ConditionStatus::Unknown, "NodeLost", "");
    /// ```
    #[must_use]
    pub fn new(
        type_: &str,
        status: impl Into<ConditionStatus>,
        reason: &str,
        message: &str,
    ) -> Self {
        let (type_, reason, message) = (type_.into(), reason.into(), message.into());
        Self { type_, status: status.into(), reason, message }
    }

    /// Sets the condition in `conditions`, with `generation` as its observedGeneration; returns
    /// whether it changed anything. lastTransitionTime changes only with the status, as in
    /// upstream's `meta.SetStatusCondition`.
    ///
    /// ```
    /// use evenkeel::condition::{Condition, is_true};
    /// use evenkeel::jiff::Timestamp;
    ///
    /// let mut conditions = Vec::new();
    /// let now = Timestamp::UNIX_EPOCH;
    /// assert!(Condition::new("Ready", true, "Up", "").set(&mut conditions, Some(1), now));
    /// assert!(is_true(&conditions, "Ready"));
    /// ```
    pub fn set(
        &self,
        conditions: &mut Vec<Stored>,
        generation: Option<i64>,
        now: Timestamp,
    ) -> bool {
        let present = conditions.iter_mut().find(|stored| stored.type_ == self.type_);
        let Some(present) = present else {
            conditions.push(self.stored(generation, Time(now)));
            return true;
        };
        let since = if present.status == self.status.as_str() {
            present.last_transition_time.clone()
        } else {
            Time(now)
        };
        let next = self.stored(generation, since);
        let changed = *present != next;
        *present = next;
        changed
    }

    /// Sets the condition in conditions of any type; their additional fields are kept.
    pub(crate) fn set_json(
        &self,
        conditions: &mut Vec<Value>,
        generation: Option<i64>,
        now: Timestamp,
    ) {
        let named = |stored: &&mut Map<String, Value>| {
            stored.get("type").and_then(Value::as_str) == Some(self.type_.as_str())
        };
        let present = conditions.iter_mut().filter_map(Value::as_object_mut).find(named);
        let Some(present) = present else {
            conditions.push(json!(self.stored(generation, Time(now))));
            return;
        };
        let since = present.get("lastTransitionTime").is_some_and(|since| !since.is_null());
        let status = self.status.as_str();
        let same = present.get("status").and_then(Value::as_str) == Some(status);
        if !(since && same) {
            present.insert("lastTransitionTime".to_owned(), json!(Time(now)));
        }
        // Usually nothing changed, and then nothing is copied.
        let texts = [("status", status), ("reason", &self.reason), ("message", &self.message)];
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
            type_: self.type_.clone(),
            status: self.status.as_str().to_owned(),
            reason: self.reason.clone(),
            message: self.message.clone(),
            observed_generation: generation,
            last_transition_time: since,
        }
    }
}

/// Returns whether the condition of type `type_` is `True`.
#[must_use]
pub fn is_true(conditions: &[Stored], type_: &str) -> bool {
    conditions.iter().any(|stored| stored.type_ == type_ && stored.status == "True")
}

/// The `conditions` of a custom resource's status.
///
/// Its schema is a list map keyed by type, so that several controllers can each own conditions.
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
    /// Returns whether there are no conditions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the condition of type `type_` is `True`.
    #[must_use]
    pub fn is_true(&self, type_: &str) -> bool {
        is_true(&self.0, type_)
    }

    /// Returns the condition of type `type_`, if there is one.
    #[must_use]
    pub fn get(&self, type_: &str) -> Option<&Stored> {
        self.0.iter().find(|stored| stored.type_ == type_)
    }
}

impl Deref for Conditions {
    type Target = [Stored];

    fn deref(&self) -> &[Stored] {
        &self.0
    }
}

/// The schema of `[]metav1.Condition`: a list map keyed by type, with the same limits.
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
    fn transition_time_changes_only_with_the_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        assert!(Condition::new("Ready", false, "Starting", "").set(
            &mut conditions,
            Some(1),
            at(1)
        ));
        assert!(Condition::new("Ready", false, "Pulling", "").set(&mut conditions, Some(1), at(2)));
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert!(!Condition::new("Ready", false, "Pulling", "").set(
            &mut conditions,
            Some(1),
            at(3)
        ));
        assert!(Condition::new("Ready", true, "Up", "").set(&mut conditions, Some(1), at(4)));
        assert_eq!(conditions[0].last_transition_time, Time(at(4)));
        assert!(is_true(&conditions, "Ready"));
    }

    #[test]
    fn conditions_of_other_types_keep_their_additional_fields() {
        let mut conditions = vec![
            json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}),
            json!({"type": "DiskPressure", "status": "False", "lastHeartbeatTime": "x"}),
        ];
        let others = conditions[1].clone();
        let now = Timestamp::from_second(4_000_000_000).unwrap();
        Condition::new("Ready", true, "Up", "").set_json(&mut conditions, Some(3), now);
        assert_eq!(conditions[0]["lastHeartbeatTime"], "2026-01-01T00:00:00Z");
        assert_eq!(conditions[0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(conditions[0]["reason"], "Up");
        assert_eq!(conditions[1], others);
        Condition::new("Ready", false, "Down", "").set_json(&mut conditions, Some(3), now);
        assert_eq!(conditions[0]["lastTransitionTime"], json!(Time(now)));
        Condition::new("New", false, "Added", "").set_json(&mut conditions, None, now);
        assert_eq!(conditions.len(), 3);
    }

    #[test]
    fn a_newer_generation_is_a_change_without_a_transition() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        Condition::new("Ready", true, "Up", "").set(&mut conditions, Some(1), at(1));
        assert!(Condition::new("Ready", true, "Up", "").set(&mut conditions, Some(2), at(2)));
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert_eq!(conditions[0].observed_generation, Some(2));
    }
}
