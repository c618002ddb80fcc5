//! Schemas against transcripts of a real kube-apiserver 1.36.

mod crds;
mod objects;
mod updates;
