//! The control plane components that run with the server.

use parking_lot::Mutex;

/// The components that run with the server.
#[derive(Default)]
pub(crate) struct Components(Mutex<Vec<String>>);

impl Components {
    pub(crate) fn add(&self, name: &str) {
        self.0.lock().push(name.to_owned());
    }

    pub(crate) fn is_running(&self, name: &str) -> bool {
        self.0.lock().iter().any(|running| running == name)
    }
}
