//! Pod addresses, allocated from the network of each node.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;

use parking_lot::Mutex;

/// The addresses in use, by node.
#[derive(Default)]
pub(super) struct Addresses(Mutex<HashMap<String, Pool>>);

#[derive(Default)]
struct Pool {
    used: BTreeSet<Ipv4Addr>,
    last: u8,
}

impl Addresses {
    /// Allocates an address of a /24 `network`: `former` if it is free, or else the next one, so
    /// that an address is not reused immediately. Returns `None` if all are in use.
    pub(super) fn take(
        &self,
        node: &str,
        network: Ipv4Addr,
        former: Option<Ipv4Addr>,
    ) -> Option<Ipv4Addr> {
        let mut pools = self.0.lock();
        let pool = pools.entry(node.to_owned()).or_default();
        if let Some(former) = former
            && pool.used.insert(former)
        {
            return Some(former);
        }
        let [a, b, c, _] = network.octets();
        // The first is the network address, the second the gateway, the last the broadcast address.
        for _ in 0..=u8::MAX {
            pool.last = pool.last.wrapping_add(1);
            let address = Ipv4Addr::new(a, b, c, pool.last);
            if (2..u8::MAX).contains(&pool.last) && pool.used.insert(address) {
                return Some(address);
            }
        }
        None
    }

    pub(super) fn release(&self, node: &str, address: Option<Ipv4Addr>) {
        let Some(address) = address else { return };
        let mut pools = self.0.lock();
        if let Some(pool) = pools.get_mut(node) {
            pool.used.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_reused_last() {
        let addresses = Addresses::default();
        let network = Ipv4Addr::new(10, 128, 3, 0);
        let taken: BTreeSet<_> =
            std::iter::from_fn(|| addresses.take("node", network, None)).collect();
        assert_eq!(taken.len(), 253);
        assert!(!taken.contains(&Ipv4Addr::new(10, 128, 3, 1)));
        let freed = Ipv4Addr::new(10, 128, 3, 77);
        addresses.release("node", Some(freed));
        assert_eq!(addresses.take("node", network, None), Some(freed));
    }
}
