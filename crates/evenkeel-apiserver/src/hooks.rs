//! The behaviour of single kinds.

pub(crate) mod custom_resource_definition;

pub(crate) mod service;
