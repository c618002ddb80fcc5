//! Which status fields a type has.
//!
//! Not every status has an `observedGeneration`, and conditions of built-in types lack some fields
//! of `metav1.Condition`. Decoding an object with these fields shows which the type drops. The
//! result is remembered per type.

use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::{Map, Value};

use super::extract;
use crate::kind::Object;

pub(super) const OBSERVED: &str = "observedGeneration";
pub(super) const CONDITIONS: &str = "conditions";

/// The status fields of the type that a controller reconciles.
#[derive(Debug, Default)]
pub(crate) struct StatusFields {
    observed: FieldSupport,
    conditions: FieldSupport,
}

/// Whether the type preserves a field; unknown until it was decoded once.
#[derive(Debug, Default)]
struct FieldSupport(AtomicU8);

impl FieldSupport {
    const KEPT: u8 = 1;
    const CHANGED: u8 = 2;

    fn record(&self, kept: bool) {
        self.0.store(if kept { Self::KEPT } else { Self::CHANGED }, Ordering::Relaxed);
    }

    fn is_kept(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::KEPT
    }

    fn is_changed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::CHANGED
    }
}

impl StatusFields {
    /// Returns whether the type is known to have no `observedGeneration`.
    pub(super) fn lacks_observed_generation(&self) -> bool {
        self.observed.is_changed()
    }

    /// Returns `status` without the fields that the type drops. `observed` and `conditions` state
    /// whether `observedGeneration` and conditions were set in it.
    pub(super) fn kept<K: Object>(
        &self,
        object: &K,
        status: Value,
        observed: bool,
        conditions: bool,
    ) -> Value {
        let known =
            (!observed || self.observed.is_kept()) && (!conditions || self.conditions.is_kept());
        if known {
            return status;
        }
        let Ok(Value::Object(mut whole)) = serde_json::to_value(object) else { return status };
        if let Some(kept) = tried::<K>(&mut whole, &status) {
            if observed {
                self.observed.record(kept.get(OBSERVED) == status.get(OBSERVED));
            }
            if conditions {
                self.conditions.record(kept.get(CONDITIONS) == status.get(CONDITIONS));
            }
            return kept;
        }
        // A type that denies unknown fields has no such field.
        let mut plain = status;
        if observed && let Value::Object(fields) = &mut plain {
            fields.remove(OBSERVED);
        }
        match tried::<K>(&mut whole, &plain) {
            Some(kept) => {
                if observed {
                    self.observed.record(false);
                }
                kept
            }
            None => plain,
        }
    }
}

/// Returns the status after decoding the object as `K`; `None` if that fails.
fn tried<K: Object>(object: &mut Map<String, Value>, status: &Value) -> Option<Value> {
    object.insert("status".to_owned(), status.clone());
    let typed = K::deserialize(&*object).ok()?;
    Some(extract::status(&typed).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;

    #[test]
    fn type_is_decoded_once() {
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "Up", "message": "",
            "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = json!({ "observedGeneration": 3, "conditions": [condition] });

        let fields = StatusFields::default();
        let kept = fields.kept(&Deployment::default(), status.clone(), true, true);
        assert_eq!(kept["observedGeneration"], 3);
        assert!(kept["conditions"][0].get("observedGeneration").is_none());
        assert!(fields.observed.is_kept() && fields.conditions.is_changed());
        // Without conditions no decoding is needed any more.
        let other = json!({ "observedGeneration": 4, "unknown": 1 });
        assert_eq!(fields.kept(&Deployment::default(), other.clone(), true, false), other);

        let fields = StatusFields::default();
        let kept = fields.kept(&Node::default(), status, true, true);
        assert!(kept.get("observedGeneration").is_none());
        assert!(fields.lacks_observed_generation());
    }
}
