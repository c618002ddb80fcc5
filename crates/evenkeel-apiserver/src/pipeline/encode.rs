//! Stage 10: from objects to bytes, and from answers to responses.
//!
//! An object is encoded once, when it is stored; reads hand out those bytes. Only a client that
//! asks for another version, a table, YAML, protobuf or indentation makes the server encode again.

mod answer;

mod list;

mod pretty;

mod stored;

mod view;

pub(crate) use answer::{
    Answer, common_headers, plain_value, refusal, respond, size_at_once, warn,
};
pub(crate) use list::List;
pub(crate) use pretty::indent;
pub(crate) use stored::{
    Origin, is_current, is_unchanged, pass_through_storage, to_bytes, to_unsaved_record, value,
};
pub(crate) use view::{
    Include, in_version, table, table_definitions, table_metadata_of, table_of, to_metadata, to_row,
};
