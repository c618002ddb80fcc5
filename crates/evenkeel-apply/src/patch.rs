//! Patches other than apply: JSON patch, JSON merge patch and strategic merge patch.
//!
//! All three compute a new object from an object and a patch; the result is validated later, when
//! it is decoded. Errors have the messages that kube-apiserver returns, and their docs name the
//! status code.

mod json_patch;
mod merge_patch;
mod strategic;

pub use json_patch::{JsonPatch, JsonPatchError};
pub use merge_patch::{InvalidMergePatch, merge_patch};
pub use strategic::{
    PatchField, PatchSchema, PatchStrategy, StrategicError, strategic_merge_patch,
};
