//! Servers that start with what another one has stored.

use super::{ApiServer, ApiServerBuilder, BuildError};
use crate::bootstrap::Defaults;
use crate::hooks::service::allocator::Allocator;
use crate::storage::{Options, Store, Window};

/// What a server stores at a revision; see [`ApiServerBuilder::snapshot`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshot(Store);

impl ApiServer {
    /// Returns what the server stores now, without its history.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.core.store.copy(Window::default()))
    }
}

impl ApiServerBuilder {
    /// Starts with what another server had stored, at the same revision and without the work of
    /// creating it: many servers with the same CRDs and objects start fast. Has no effect on the
    /// snapshot. Cannot be combined with a data directory.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_apiserver::ApiServer;
    ///
    /// let first = ApiServer::builder().build().await?;
    /// let second = ApiServer::builder().snapshot(first.snapshot()).build().await?;
    /// assert_eq!(second.revision(), first.revision());
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(mut self, snapshot: Snapshot) -> Self {
        self.snapshot = Some(snapshot);
        self
    }

    /// Returns what describes the objects that every cluster has; `None` if they are in the snapshot.
    pub(super) fn defaults(&self, allocator: &Allocator) -> Option<Defaults> {
        self.snapshot.is_none().then(|| Defaults {
            apiserver_address: allocator.apiserver_address(),
            service_cidr: allocator.cidr(),
            roles: !self.authorization.no_bootstrap_roles,
        })
    }

    /// Opens the store that the options describe.
    pub(super) fn open_store(&self, options: &Options) -> Result<Store, BuildError> {
        match (&options.data_dir, &self.snapshot) {
            (Some(_), Some(_)) => {
                let message = "a server with a data directory cannot start with a snapshot";
                Err(BuildError::Option(message.to_owned()))
            }
            (Some(_), None) => Ok(Store::open(options)?),
            (None, Some(snapshot)) => Ok(snapshot.0.copy(options.window)),
            (None, None) => Ok(Store::in_memory(options)),
        }
    }
}
