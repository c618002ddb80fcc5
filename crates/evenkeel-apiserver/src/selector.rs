//! Label and field selectors of lists, watches and deletecollection.

mod field;

mod label;

pub(crate) use field::FieldSelector;
pub(crate) use label::LabelSelector;
