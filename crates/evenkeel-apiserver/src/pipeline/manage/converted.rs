//! Conversions by a webhook that managed fields need.
//!
//! Managed fields are computed without waiting. An object that is not converted yet is recorded and
//! fails the computation, which is repeated after the webhook has converted the object.

use evenkeel_apply::managed::ConvertError;
use parking_lot::Mutex;
use serde_json::Value;

/// Attempts to convert what a computation needs: each needs one object more than the last.
const MAX_CONVERTED: usize = 64;

/// An object, the version to convert it to, and the outcome.
type Conversion = (Value, String, Result<Value, String>);

/// The objects converted until now.
#[derive(Default)]
pub(super) struct Converted {
    known: Vec<Conversion>,
    wanted: Mutex<Option<(Value, String)>>,
}

impl Converted {
    /// Returns the converted object, or records that it is needed.
    pub(super) fn get(&self, object: Value, to: &str) -> Result<Value, ConvertError> {
        let mut known = self.known.iter();
        let known = known.find(|(from, version, _)| version == to && *from == object);
        match known {
            Some((_, _, Ok(converted))) => Ok(converted.clone()),
            Some((_, _, Err(why))) => Err(ConvertError::Failed(why.clone())),
            None => {
                self.wanted.lock().get_or_insert_with(|| (object, to.to_owned()));
                Err(ConvertError::Failed("the object is not converted yet".to_owned()))
            }
        }
    }

    /// Returns the object that the last computation lacked.
    pub(super) fn take_wanted(&self) -> Option<(Value, String)> {
        self.wanted.lock().take().filter(|_| self.known.len() < MAX_CONVERTED)
    }

    pub(super) fn insert(&mut self, object: Value, to: String, outcome: Result<Value, String>) {
        self.known.push((object, to, outcome));
    }
}
