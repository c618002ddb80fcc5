//! The names of the types that the program was compiled with, each made once and kept.
//!
//! A table that only grows: a search takes no lock and writes nothing. It is as large as the number
//! of types the program names, so nothing in it is ever given back.

use std::any::TypeId;
use std::hash::BuildHasher as _;
use std::sync::OnceLock;

use super::Names;

/// A program names some dozens of types.
const BUCKETS: usize = 64;

static TABLE: [Link; BUCKETS] = [const { Link::new() }; BUCKETS];

type Link = OnceLock<&'static Node>;

struct Node {
    id: TypeId,
    names: Names,
    next: Link,
}

/// The names of the type `id`, which are `make()`.
pub(super) fn names(id: TypeId, make: impl Fn() -> Names) -> &'static Names {
    let hash = foldhash::fast::FixedState::default().hash_one(id);
    let mut link = &TABLE[hash as usize % BUCKETS];
    loop {
        let node =
            link.get_or_init(|| Box::leak(Box::new(Node { id, names: make(), next: Link::new() })));
        if node.id == id {
            return &node.names;
        }
        link = &node.next;
    }
}
