//! Schemas compared with transcripts of kube-apiserver 1.36.

mod crds;
mod objects;
mod rules;
mod updates;
