//! The watches of a controller in engaged clusters.

use std::sync::Arc;

use super::core::Core;
use super::watches::{self, Watch, WatchError, WatchGuard};
use crate::cache::{Cache, DeclareError, Informer, TypeOptions};
use crate::clusters::Cluster;
use crate::error::chain;
use crate::kind::Kind;

/// What a controller watches and reads in each engaged cluster.
pub(super) struct Remote {
    pub(super) watches: Vec<Watch>,
    pub(super) reads: Vec<(Kind, Option<TypeOptions>)>,
}

/// A cluster that the controller watches, until this is dropped.
struct Attached {
    cluster: Cluster,
    _watches: Vec<WatchGuard>,
    _informers: Vec<Informer>,
}

impl Remote {
    /// Watches each cluster while it is engaged.
    pub(super) async fn follow(self: Arc<Self>, core: Arc<Core>) {
        if self.watches.is_empty() && self.reads.is_empty() {
            return;
        }
        let mut changes = core.clusters.follow();
        let mut attached: Vec<Attached> = Vec::new();
        while let Some(engaged) = changes.next().await {
            attached.retain(|it| engaged.iter().any(|cluster| cluster.is(&it.cluster)));
            for cluster in engaged {
                if attached.iter().any(|it| it.cluster.is(&cluster)) {
                    continue;
                }
                match self.attach(&core, cluster.clone()) {
                    Ok(it) => attached.push(it),
                    Err(error) => tracing::error!(
                        controller = %core.name,
                        cluster = cluster.name(),
                        error = chain(&error),
                        "cannot watch cluster"
                    ),
                }
            }
        }
    }

    /// Declares the types in the cache of a cluster.
    pub(super) fn declare(&self, cache: &Cache, controller: &str) -> Result<(), DeclareError> {
        for (kind, options) in &self.reads {
            watches::declare(cache, kind, options.clone(), controller)?;
        }
        self.watches.iter().try_for_each(|watch| watch.declare(cache, controller))
    }

    fn attach(&self, core: &Core, cluster: Cluster) -> Result<Attached, WatchError> {
        let cache = cluster.client().cache();
        // All declarations come first: they determine how a type is cached.
        self.declare(cache, &core.name)?;
        let informers = self.reads.iter().map(|(kind, _)| cache.informer(kind));
        let informers = informers.collect::<Result<_, _>>()?;
        let attach = |watch: &Watch| core.attach_to(watch.clone(), cache, Some(&cluster));
        let watches = self.watches.iter().map(attach).collect::<Result<_, _>>()?;
        Ok(Attached { cluster, _watches: watches, _informers: informers })
    }
}
