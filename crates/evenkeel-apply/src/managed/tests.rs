//! Ownership: scripts of writes.
