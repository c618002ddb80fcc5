//! What a decoded object uses of the budget of the LRU.
//!
//! Apart from the LRU, which keeps entries: an entry holds the charge of its decoded form.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all decoded objects of a cache use.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) bytes: AtomicUsize,
    pub(super) objects: AtomicUsize,
}

/// The share of one object in the budget; released on drop.
#[derive(Debug)]
pub(super) struct Charge {
    usage: Arc<Usage>,
    bytes: usize,
}

impl Charge {
    pub(super) fn new(usage: &Arc<Usage>, bytes: usize) -> Self {
        usage.bytes.fetch_add(bytes, Ordering::Relaxed);
        usage.objects.fetch_add(1, Ordering::Relaxed);
        Self { usage: usage.clone(), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.usage.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.usage.objects.fetch_sub(1, Ordering::Relaxed);
    }
}
