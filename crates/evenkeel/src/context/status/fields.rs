//! Which status fields a type has.
//!
//! Not every status has an `observedGeneration`, and conditions of built-in types lack some fields
//! of `metav1.Condition`. Decoding an object with these fields shows which the type drops. The
//! result is remembered per type.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use serde_json::{Map, Value};

use super::extract;
use crate::kind::AnyObject;

pub(super) const OBSERVED: &str = "observedGeneration";
pub(super) const CONDITIONS: &str = "conditions";

/// The status fields of the type that a controller reconciles.
#[derive(Debug, Default)]
pub(crate) struct StatusFields {
    observed: FieldSupport,
    conditions: FieldSupport,
    /// The fields of conditions that the type drops, once known. Then no object is decoded.
    dropped: OnceLock<Vec<String>>,
    /// The automatic fields that a type known only at run time has, as far as known.
    automatic: AtomicU8,
    confirmed: AtomicBool,
}

/// Which fields an update sets on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Automatic {
    /// observedGeneration of the status and of conditions.
    All,
    /// observedGeneration of conditions.
    Conditions,
    None,
}

impl Automatic {
    const ORDER: [Self; 3] = [Self::All, Self::Conditions, Self::None];

    pub(super) fn in_status(self) -> bool {
        self == Self::All
    }

    pub(super) fn in_conditions(self) -> bool {
        self != Self::None
    }
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
    /// Returns the automatic fields to set.
    pub(super) fn automatic(&self) -> Automatic {
        let at = usize::from(self.automatic.load(Ordering::Relaxed));
        Automatic::ORDER.get(at).copied().unwrap_or(Automatic::None)
    }

    /// Records that the server accepted these automatic fields.
    pub(super) fn confirm(&self, automatic: Automatic) {
        self.automatic.store(automatic as u8, Ordering::Relaxed);
        self.confirmed.store(true, Ordering::Relaxed);
    }

    /// Sets fewer automatic fields after the server rejected these; returns false if they are known
    /// to be accepted or there are none left, so that the rejection has another reason.
    pub(super) fn reduce(&self, rejected: Automatic) -> bool {
        let left = !self.confirmed.load(Ordering::Relaxed) && rejected != Automatic::None;
        let next = if left { rejected as u8 + 1 } else { Automatic::All as u8 };
        if !self.confirmed.load(Ordering::Relaxed) {
            self.automatic.store(next, Ordering::Relaxed);
        }
        left
    }

    /// Returns whether the type is known to have no `observedGeneration`.
    pub(super) fn lacks_observed_generation(&self) -> bool {
        self.observed.is_changed()
    }

    /// Returns `status` without the fields that the type drops. `observed` and `conditions` state
    /// whether `observedGeneration` and conditions were set in it.
    pub(super) fn kept<K: AnyObject>(
        &self,
        object: &K,
        mut status: Map<String, Value>,
        observed: bool,
        conditions: bool,
    ) -> Map<String, Value> {
        let dropped = self.dropped.get().filter(|_| conditions);
        let known = (!observed || self.observed.is_kept())
            && (!conditions || self.conditions.is_kept() || dropped.is_some());
        if known {
            remove_from_conditions(&mut status, dropped.map_or(&[], Vec::as_slice));
            return status;
        }
        let Ok(Value::Object(mut whole)) = serde_json::to_value(object) else { return status };
        if let Some(kept) = decoded::<K>(&mut whole, &status) {
            if observed {
                self.observed.record(kept.get(OBSERVED) == status.get(OBSERVED));
            }
            if conditions {
                self.record_conditions(&status, &kept);
            }
            return kept;
        }
        // A type that denies unknown fields has no such field.
        if observed {
            status.remove(OBSERVED);
        }
        match decoded::<K>(&mut whole, &status) {
            Some(kept) => {
                if observed {
                    self.observed.record(false);
                }
                kept
            }
            None => status,
        }
    }

    /// Records which fields of the conditions in `status` the type dropped.
    fn record_conditions(&self, status: &Map<String, Value>, kept: &Map<String, Value>) {
        self.conditions.record(status.get(CONDITIONS) == kept.get(CONDITIONS));
        if self.conditions.is_kept() {
            return;
        }
        let mut dropped = BTreeSet::new();
        for (sent, kept) in conditions(status).zip(conditions(kept)) {
            dropped.extend(sent.keys().filter(|name| !kept.contains_key(*name)).cloned());
        }
        let dropped: Vec<String> = dropped.into_iter().collect();
        let mut expected = status.clone();
        remove_from_conditions(&mut expected, &dropped);
        // If it also changes values, each status is decoded.
        if expected.get(CONDITIONS) == kept.get(CONDITIONS) {
            let _ = self.dropped.set(dropped);
        }
    }
}

/// Iterates over the conditions of a status.
fn conditions(status: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    let list = status.get(CONDITIONS).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}

fn remove_from_conditions(status: &mut Map<String, Value>, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let list = status.get_mut(CONDITIONS).and_then(Value::as_array_mut);
    for condition in list.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.retain(|name, _| !names.contains(name));
    }
}

/// Returns the status after decoding the object as `K`; `None` if that fails.
fn decoded<K: AnyObject>(
    object: &mut Map<String, Value>,
    status: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    object.insert("status".to_owned(), Value::Object(status.clone()));
    let typed = K::deserialize(&*object).ok()?;
    match extract::status(&typed) {
        Some(Value::Object(status)) => Some(status),
        _ => Some(Map::new()),
    }
}

#[cfg(test)]
mod tests;
