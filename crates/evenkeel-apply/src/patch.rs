//! The patches that are not apply: JSON patch, JSON merge patch and strategic merge patch.
//!
//! All three turn an object and a patch into a new object; what the result is allowed to be is
//! decided later, when it is decoded. Errors carry the texts clients get to see, and say which
//! status goes with them.

mod json_patch;
mod merge_patch;
mod strategic;

pub use json_patch::{JsonPatch, JsonPatchError};
pub use merge_patch::{InvalidMergePatch, merge_patch};
pub use strategic::{
    PatchField, PatchSchema, PatchStrategy, StrategicError, strategic_merge_patch,
};
