//! The request path, top to bottom.
//!
//! [`run`] calls every stage of a request. Each stage consumes the output of the one before it, so
//! a stage cannot be left out. For writes the verbs call the remaining stages:
//!
//! ```text
//! route → authenticate → impersonate → authorize → receive → decode → manage → mutate
//!       → prepare → validate → persist → encode
//! ```
//!
//! Of an update, everything from `manage` to `validate` runs inside the compare-and-swap loop of
//! `persist`, once for each version of the object it finds. Of a patch, so does decoding the
//! patched object.

pub(crate) mod decode;

pub(crate) mod manage;

pub(crate) mod mutate;

pub(crate) mod prepare;

pub(crate) mod validate;

pub(crate) mod persist;

pub(crate) mod encode;

pub(crate) mod create;

pub(crate) mod update;

pub(crate) mod patch;

pub(crate) mod delete;
