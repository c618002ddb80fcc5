//! Services: cluster IPs and node ports.

pub(crate) mod allocator;
