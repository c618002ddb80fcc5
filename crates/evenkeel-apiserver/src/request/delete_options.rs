//! `DeleteOptions`, which a deletion has in its body or its query.

use evenkeel_schema::field;
use serde_json::{Value, json};

use super::query::{check_options, dry_run};
use crate::status::Status;

/// The finalizer of the propagation policy `Orphan`.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer of the propagation policy `Foreground`.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Orphan,
    Background,
    Foreground,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) policy: Option<Policy>,
    /// The preconditions.
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Parses a DeleteOptions object.
    pub(crate) fn read(given: &Value) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let policy = match given["propagationPolicy"].as_str() {
            None | Some("") => None,
            Some("Orphan") => Some(Policy::Orphan),
            Some("Background") => Some(Policy::Background),
            Some("Foreground") => Some(Policy::Foreground),
            Some(other) => {
                errors.push(field::Error::not_supported(
                    "propagationPolicy",
                    other,
                    ["Foreground", "Background", "Orphan", "nil"],
                ));
                None
            }
        };
        let orphan_dependents = given["orphanDependents"].as_bool();
        if orphan_dependents.is_some() && given["propagationPolicy"].is_string() {
            errors.push(field::Error::invalid(
                "propagationPolicy",
                given["propagationPolicy"].clone(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let list = given["dryRun"].as_array();
        let values = list.into_iter().flatten().filter_map(Value::as_str);
        let dry_run = dry_run(values, &mut errors);
        check_options("DeleteOptions", &errors)?;
        let precondition = |name: &str| given["preconditions"][name].as_str().map(str::to_owned);
        Ok(Self {
            grace_period_seconds: given["gracePeriodSeconds"].as_i64(),
            orphan_dependents,
            policy,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run,
        })
    }

    /// Returns the options as an object without its kind.
    pub(crate) fn to_value(&self) -> Value {
        let mut options = json!({});
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        for (field, value) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(value) = value {
                options["preconditions"][field] = value.clone().into();
            }
        }
        if let Some(orphan) = self.orphan_dependents {
            options["orphanDependents"] = orphan.into();
        }
        if let Some(policy) = self.policy {
            options["propagationPolicy"] = format!("{policy:?}").into();
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }

    /// Updates the precondition after a write on behalf of this deletion.
    pub(crate) fn expect_revision(&mut self, revision: u64) {
        if let Some(version) = &mut self.resource_version {
            *version = revision.to_string();
        }
    }
}
