//! Encodes objects and builds responses.
//!
//! An object is encoded once, when it is stored; reads return those bytes. Only another version, a
//! table, YAML, protobuf or indentation require encoding again.

mod response;

mod list;

mod pretty;

mod view;

pub(crate) use list::List;
pub(crate) use pretty::indent;
pub(crate) use response::{
    Reply, add_warning, add_warnings, audit, audit_id, buffered_size, common_headers,
    error_response, respond, value_response,
};
pub(crate) use view::{
    Include, in_version, table, table_definitions, table_metadata_of, table_of, to_metadata, to_row,
};
