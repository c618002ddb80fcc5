//! Keys on their way to workers.
