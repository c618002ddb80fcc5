//! What is known of the cluster: one informer per type and scope, shared by all who ask.

mod entry;

mod meta;

pub use entry::{DecodeError, Entry};
pub use meta::{Meta, Owner, Version};
