//! The cluster of the reconciled object, and the others.

use std::sync::Arc;

use super::Context;
use crate::client::Client;
use crate::kind::AnyObject;

impl<K: AnyObject> Context<K> {
    /// Returns the name of the engaged cluster that the object is in; `None` for the manager's own
    /// cluster. [`client`](Context::client) is the client of that cluster.
    #[must_use]
    pub fn cluster_name(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    /// Returns a client of an engaged cluster, with the controller's name as field manager. The
    /// journal records its operations for this reconcile.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn copy(cx: &Context<ConfigMap>, map: &ConfigMap) -> Result<()> {
    /// for name in cx.cluster_names() {
    ///     let Some(client) = cx.cluster(&name) else { continue }; // disengaged meanwhile
    ///     client.apply(map).force().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cluster(&self, name: &str) -> Option<Client> {
        let cluster = self.clusters.get(name)?;
        Some(self.client.in_cluster(cluster.client()))
    }

    /// Returns the names of the engaged clusters, in order.
    #[must_use]
    pub fn cluster_names(&self) -> Vec<Arc<str>> {
        self.clusters.list().iter().map(|cluster| cluster.shared_name().clone()).collect()
    }
}
