//! What Kubernetes knows of its built-in types. Pure: no IO, no async, no clock.

mod gvk;

pub use gvk::Gvk;
