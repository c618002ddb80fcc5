//! Label and field selectors of lists, watches and deletecollection.

pub(crate) mod field;

mod label;

use std::borrow::Cow;
use std::sync::Arc;

use self::field::FieldSelector;
pub(crate) use self::label::LabelSelector;
use crate::codec;
use crate::registry::resource::{Resource, TypeInfo};
use crate::status::Status;
use crate::storage::Record;

/// The label and field selectors of a request.
#[derive(Clone, Default)]
pub(crate) struct Filter {
    labels: LabelSelector,
    fields: FieldSelector,
    /// The custom resource, if its fields are selected. They are read from the object: each version
    /// of a CRD declares its own, and sets its own defaults.
    custom: Option<Arc<Resource>>,
}

impl Filter {
    pub(crate) fn parse(
        resource: &Arc<Resource>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, Status> {
        let labels = LabelSelector::parse(labels).map_err(Status::bad_request)?;
        let fields = match &resource.type_info {
            TypeInfo::Builtin(_) => FieldSelector::parse(fields, &resource.selectable, |label| {
                evenkeel_kinds::fields::storage_label(resource.gvk(), label)
                    .map_err(|unsupported| unsupported.to_string())
            }),
            TypeInfo::Custom(_) => FieldSelector::parse(fields, &resource.selectable, Ok),
        };
        let fields = fields.map_err(Status::bad_request)?;
        let reads_object = resource.is_custom() && fields.selects_declared_fields();
        Ok(Self { labels, fields, custom: reads_object.then(|| resource.clone()) })
    }

    /// Selects the object of this name only.
    pub(crate) fn named(name: &str) -> Self {
        Self { fields: FieldSelector::name(name), ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, record: &Record) -> bool {
        if !self.labels.matches(&record.labels) {
            return false;
        }
        let Some(resource) = &self.custom else {
            let stored = |at| Cow::Borrowed(record.fields.get(at).unwrap_or_default());
            return self.fields.matches(record, stored);
        };
        let Ok(object) = codec::value(resource, record) else { return false };
        self.fields.matches(record, |at| {
            let custom = resource.custom().zip(resource.selectable.get(at));
            let value = custom.map(|(custom, label)| custom.selectable_value(label, &object));
            Cow::Owned(value.unwrap_or_default())
        })
    }

    /// Returns the name that objects must have to be selected, if there is one.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        self.fields.exact_name()
    }
}
