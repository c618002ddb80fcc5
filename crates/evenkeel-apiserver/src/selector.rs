//! Label and field selectors of lists, watches and deletecollection.

mod field;

mod label;

use self::field::FieldSelector;
use self::label::LabelSelector;
use crate::registry::resource::{Resource, TypeInfo};
use crate::request::query::ListOptions;
use crate::status::Status;
use crate::storage::Record;

/// The label and field selectors of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    pub(crate) fn parse(resource: &Resource, options: &ListOptions) -> Result<Self, Status> {
        let labels = LabelSelector::parse(&options.label_selector).map_err(Status::bad_request)?;
        let fields = match &resource.type_info {
            TypeInfo::Builtin(_) => {
                FieldSelector::parse(&options.field_selector, &resource.selectable, |label| {
                    evenkeel_kinds::fields::storage_label(resource.gvk(), label)
                        .map_err(|unsupported| unsupported.to_string())
                })
            }
            TypeInfo::Custom(_) => {
                FieldSelector::parse(&options.field_selector, &resource.selectable, Ok)
            }
        };
        let fields = fields.map_err(Status::bad_request)?;
        Ok(Self { labels, fields })
    }

    /// Selects the object of this name only.
    pub(crate) fn named(name: &str) -> Self {
        Self { labels: LabelSelector::default(), fields: FieldSelector::name(name) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, record: &Record) -> bool {
        self.labels.matches(&record.labels) && self.fields.matches(record)
    }

    /// Returns the name that objects must have to be selected, if there is one.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        self.fields.exact_name()
    }
}
