//! Label and field selectors: which objects a list, watch or deletecollection is about.

mod field;

mod label;

pub(crate) use field::FieldSelector;
pub(crate) use label::LabelSelector;
