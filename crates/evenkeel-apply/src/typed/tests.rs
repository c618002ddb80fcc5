//! Walks of values: tables by operation.
