//! The rules of a resource's kind: built-in kinds, CustomResourceDefinitions and custom resources
//! have theirs in different places.

use std::collections::HashSet;

use evenkeel_kinds::defaults::Applied;
use evenkeel_kinds::empty::EmptyFields;
use evenkeel_kinds::strategy::{self, Strategy};
use evenkeel_kinds::validate;
use evenkeel_schema::{field, metadata, names};
use evenkeel_types::go::Quoted;
use serde_json::Value;

use super::custom::{self, is_crd};
use super::resource::{Part, Resource, TypeInfo};
use crate::object::{Metadata as _, set_meta};

impl Resource {
    /// Returns the strategy of a built-in kind.
    pub(crate) fn strategy(&self) -> Option<&'static Strategy> {
        match &self.type_info {
            TypeInfo::Builtin(builtin) => Some(builtin.strategy),
            TypeInfo::Custom(_) => None,
        }
    }

    /// Sets defaults of an object with fields that were sent empty.
    pub(crate) fn fill_defaults(&self, object: &mut Value, sent_empty: EmptyFields) -> Applied {
        let restored = sent_empty.restore(object);
        let applied = self.set_defaults(object);
        restored.remove(object);
        Applied { sent_empty, ..applied }
    }

    fn set_defaults(&self, object: &mut Value) -> Applied {
        match &self.type_info {
            TypeInfo::Builtin(_) if is_crd(self) => {
                evenkeel_schema::default_crd(object);
                Applied::default()
            }
            TypeInfo::Builtin(_) => evenkeel_kinds::defaults::apply(self.gvk(), object),
            TypeInfo::Custom(custom) => {
                custom.schema.default(object);
                Applied::default()
            }
        }
    }

    /// Prepares a new object: sets its generation and drops what only the server may set.
    pub(crate) fn prepare_create(&self, object: &mut Value, cx: &strategy::Context<'_>) {
        match &self.type_info {
            TypeInfo::Builtin(_) if is_crd(self) => custom::prepare_create(object),
            TypeInfo::Builtin(_) => strategy::prepare_for_create(self.gvk(), object, cx),
            TypeInfo::Custom(custom) => {
                if custom.has_status
                    && let Value::Object(map) = &mut *object
                {
                    map.remove("status");
                }
                set_meta(object, "generation", Some(1.into()));
            }
        }
    }

    /// Prepares an update: keeps what it may not change, and increments the generation.
    pub(crate) fn prepare_update(
        &self,
        object: &mut Value,
        old: &Value,
        part: Part<'_>,
        cx: &strategy::Context<'_>,
    ) {
        let gvk = self.gvk();
        match (&self.type_info, part) {
            (TypeInfo::Custom(custom), part) => custom.prepare_update(object, old, part),
            (TypeInfo::Builtin(_), part) if is_crd(self) => {
                custom::prepare_update(object, old, part);
            }
            (_, Part::Main) => strategy::prepare_for_update(gvk, old, object, cx),
            (_, Part::Status) => strategy::prepare_for_status_update(gvk, old, object, cx),
            (_, Part::Other(name)) => {
                strategy::prepare_for_subresource_update(gvk, name, old, object, cx);
            }
        }
    }

    /// Validates a new object.
    pub(crate) fn validate_create(&self, object: &Value) -> Vec<field::Error> {
        match &self.type_info {
            TypeInfo::Builtin(_) if is_crd(self) => evenkeel_schema::validate_crd(object),
            TypeInfo::Builtin(_) => validate::create(self.gvk(), object),
            TypeInfo::Custom(custom) => {
                let errors = self.type_errors(object);
                if !errors.is_empty() {
                    return errors;
                }
                let (metadata, name_rule) = (metadata_of(object), names::subdomain_name);
                let mut errors =
                    metadata::validate(metadata, self.namespaced, name_rule, "metadata");
                errors.extend(custom.schema.validate(object));
                errors
            }
        }
    }

    /// Validates an update of `old`. Failed rules of values that did not change become warnings.
    pub(crate) fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        part: Part<'_>,
        warnings: &mut Vec<String>,
    ) -> Vec<field::Error> {
        let gvk = self.gvk();
        let (new_meta, old_meta) = (metadata_of(new), metadata_of(old));
        let common =
            || metadata::validate_common_fields(new_meta, old_meta, self.namespaced, "metadata");
        match &self.type_info {
            TypeInfo::Builtin(_) if is_crd(self) => {
                let mut errors = common();
                errors.extend(match part {
                    Part::Status => evenkeel_schema::validate_crd_status_update(old, new),
                    Part::Main | Part::Other(_) => evenkeel_schema::validate_crd_update(old, new),
                });
                errors
            }
            TypeInfo::Builtin(_) => match part {
                Part::Main => validate::update(gvk, new, old),
                Part::Status => validate::status_update(gvk, new, old),
                Part::Other(name) => validate::subresource_update(gvk, name, new, old),
            },
            TypeInfo::Custom(custom) => {
                let mut errors = common();
                let other_type = self.type_errors(new);
                if !other_type.is_empty() {
                    errors.extend(other_type);
                    return errors;
                }
                // Upstream applies these rules twice: for all kinds and for custom resources.
                errors.extend(metadata::validate_update(new_meta, old_meta, "metadata"));
                errors.extend(match part {
                    Part::Status => custom.schema.validate_status_update(old, new, warnings),
                    Part::Main | Part::Other(_) => {
                        custom.schema.validate_update(old, new, warnings)
                    }
                });
                errors
            }
        }
    }

    /// Validates the type of a custom object, which a mutating webhook may have changed.
    fn type_errors(&self, object: &Value) -> Vec<field::Error> {
        let expected = [("kind", &self.kind), ("apiVersion", &self.api_version)];
        let differing = expected.into_iter().filter(|(name, value)| object[*name] != ***value);
        let errors = differing.map(|(name, value)| {
            field::Error::invalid(name, object[name].clone(), format!("must be {value}"))
        });
        errors.collect()
    }

    /// Brings an object into the form in which it is stored.
    pub(crate) fn canonicalize(&self, object: &mut Value) {
        if is_crd(self) {
            evenkeel_schema::canonicalize_crd(object);
        } else if !self.is_custom() {
            strategy::canonicalize(self.gvk(), object);
        }
    }

    /// Returns the warnings about a new object.
    pub(crate) fn create_warnings(&self, object: &Value) -> Vec<String> {
        if self.is_custom() {
            return unqualified_finalizers(object, &[]);
        }
        let mut warnings = strategy::warnings::on_create(self.gvk(), object);
        if is_crd(self) {
            warnings.extend(unrecognized_formats(object, &[]));
        }
        warnings
    }

    /// Returns the warnings about an update of `old`.
    pub(crate) fn update_warnings(&self, object: &Value, old: &Value) -> Vec<String> {
        if self.is_custom() {
            return unqualified_finalizers(object, &old.finalizers());
        }
        let mut warnings = strategy::warnings::on_update(self.gvk(), old, object);
        if is_crd(self) {
            let known = evenkeel_schema::unrecognized_formats(old);
            warnings.extend(unrecognized_formats(object, &known));
        }
        warnings
    }
}

/// Warns of new finalizers without a domain.
fn unqualified_finalizers(object: &Value, known: &[&str]) -> Vec<String> {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let known: HashSet<&str> = known.iter().copied().collect();
    let mut added = object.finalizers();
    added.retain(|name| !known.contains(name) && !name.contains('/') && !STANDARD.contains(name));
    added.sort_unstable();
    let warnings = added.into_iter().map(|name| {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to \
             avoid accidental conflicts with other finalizer writers"
        )
    });
    warnings.collect()
}

/// Warns of formats in a CRD that validation does not recognize, except `known` ones.
fn unrecognized_formats(crd: &Value, known: &[String]) -> Vec<String> {
    let found = evenkeel_schema::unrecognized_formats(crd).into_iter();
    let found = found.filter(|format| !known.contains(format));
    found.map(|format| format!("unrecognized format {}", Quoted(&format))).collect()
}

fn metadata_of(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
}
