//! The clients of leader-bound work: one per cluster.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{Client, Shared};
use crate::fence::Fence;

/// The fenced clients of one lease. They are kept: each has connections and a record of what was
/// applied.
pub(super) struct FencedClients {
    fence: Fence,
    /// By the client that is not fenced.
    clients: Mutex<Vec<(Weak<Shared>, Arc<Shared>)>>,
}

impl FencedClients {
    pub(super) fn new(fence: Fence) -> Self {
        Self { fence, clients: Mutex::default() }
    }

    /// Returns what the fenced client of the same cluster as `client` shares.
    pub(super) fn of(&self, client: &Client) -> Arc<Shared> {
        let mut clients = self.clients.lock();
        // Those of disengaged clusters are gone.
        clients.retain(|(plain, _)| plain.strong_count() > 0);
        let same = |plain: &Weak<Shared>| std::ptr::eq(plain.as_ptr(), &raw const *client.shared);
        if let Some((_, fenced)) = clients.iter().find(|(plain, _)| same(plain)) {
            return fenced.clone();
        }
        let fenced = client.with_transport(client.shared.http.fenced(&self.fence)).shared;
        clients.push((Arc::downgrade(&client.shared), fenced.clone()));
        fenced
    }
}
