//! The roles of the cluster. Bindings refer to them by slot, so that a decision looks up no names.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::{FixedState, RandomState};

use crate::authz::{Attributes, PolicyRule};

/// All roles, and the names that bindings refer to although there is no such role.
#[derive(Debug, Default)]
pub(super) struct Roles {
    slots: Vec<Slot>,
    /// The slots that are not in use.
    free: Vec<usize>,
    /// By namespace and name; ClusterRoles have no namespace.
    by_name: HashMap<String, HashMap<String, usize, RandomState>, RandomState>,
}

#[derive(Debug, Default)]
struct Slot {
    role: Option<Role>,
    /// The bindings that refer to it.
    bindings: usize,
}

/// A Role or ClusterRole.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) rules: Arc<[PolicyRule]>,
    /// A summary of each rule.
    summaries: Box<[Summary]>,
    /// The union of the summaries.
    all: Summary,
}

/// What a rule may allow: a set bit for each of its values. A bit stands for many values, so a rule
/// whose bits match need not allow a request, but one whose bits do not match cannot.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    verbs: u64,
    /// By subresource, or by resource if there is none.
    resources: u64,
    urls: bool,
}

/// The attributes of a request, with the bits that are compared with those of rules.
pub(super) struct Request<'a> {
    attributes: &'a Attributes<'a>,
    verb: u64,
    /// `None` for requests on other paths.
    resource: Option<u64>,
}

impl Roles {
    /// Inserts or replaces a role.
    pub(super) fn put(&mut self, namespace: &str, name: &str, rules: Vec<PolicyRule>) {
        let slot = self.slot(namespace, name);
        self.slots[slot].role = Some(Role::new(rules));
    }

    /// Removes a role. Its slot stays as long as bindings refer to it.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        if let Some(slot) = self.find(namespace, name) {
            self.slots[slot].role = None;
            self.free_if_unused(namespace, name, slot);
        }
    }

    /// Returns the slot of a role that a binding refers to. The role need not exist.
    pub(super) fn bind(&mut self, namespace: &str, name: &str) -> usize {
        let slot = self.slot(namespace, name);
        self.slots[slot].bindings += 1;
        slot
    }

    /// Reverses [`bind`](Self::bind).
    pub(super) fn unbind(&mut self, namespace: &str, name: &str) {
        if let Some(slot) = self.find(namespace, name) {
            self.slots[slot].bindings -= 1;
            self.free_if_unused(namespace, name, slot);
        }
    }

    /// Returns the role of a slot, if it exists.
    pub(super) fn at(&self, slot: usize) -> Option<&Role> {
        self.slots[slot].role.as_ref()
    }

    /// Returns a role.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Role> {
        self.at(self.find(namespace, name)?)
    }

    fn find(&self, namespace: &str, name: &str) -> Option<usize> {
        self.by_name.get(namespace)?.get(name).copied()
    }

    fn slot(&mut self, namespace: &str, name: &str) -> usize {
        if let Some(slot) = self.find(namespace, name) {
            return slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.by_name.entry(namespace.to_owned()).or_default().insert(name.to_owned(), slot);
        slot
    }

    fn free_if_unused(&mut self, namespace: &str, name: &str, slot: usize) {
        let Slot { role: None, bindings: 0 } = self.slots[slot] else { return };
        self.free.push(slot);
        if let Some(names) = self.by_name.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                self.by_name.remove(namespace);
            }
        }
    }
}

#[cfg(test)]
impl Roles {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.free.len() == self.slots.len()
    }
}

impl Role {
    fn new(rules: Vec<PolicyRule>) -> Self {
        let summaries: Box<[Summary]> = rules.iter().map(Summary::of).collect();
        let all = summaries.iter().fold(Summary::default(), |all, rule| Summary {
            verbs: all.verbs | rule.verbs,
            resources: all.resources | rule.resources,
            urls: all.urls | rule.urls,
        });
        Self { rules: rules.into(), summaries, all }
    }

    /// Returns whether a rule of the role allows the request.
    pub(super) fn allows(&self, request: &Request<'_>) -> bool {
        self.all.may_allow(request)
            && self.summaries.iter().zip(&*self.rules).any(|(summary, rule)| {
                summary.may_allow(request) && rule.allows(request.attributes)
            })
    }
}

impl Summary {
    fn of(rule: &PolicyRule) -> Self {
        let bits = |values: &[String]| values.iter().fold(0, |bits, value| bits | bits_of(value));
        let names = rule.resources.iter().map(|resource| match resource.split_once('/') {
            Some((_, subresource)) => bit(subresource),
            None => bits_of(resource),
        });
        Self {
            verbs: bits(&rule.verbs),
            resources: names.fold(0, |bits, name| bits | name),
            urls: !rule.non_resource_urls.is_empty(),
        }
    }

    fn may_allow(&self, request: &Request<'_>) -> bool {
        self.verbs & request.verb != 0
            && match request.resource {
                Some(resource) => self.resources & resource != 0,
                None => self.urls,
            }
    }
}

impl<'a> Request<'a> {
    pub(super) fn new(attributes: &'a Attributes<'a>) -> Self {
        let resource = attributes.resource.as_ref().map(|resource| match resource.subresource {
            "" => bit(resource.resource),
            subresource => bit(subresource),
        });
        Self { attributes, verb: bit(attributes.verb), resource }
    }
}

/// Returns the bits of a value of a rule: all for `*`.
fn bits_of(value: &str) -> u64 {
    if value == "*" { u64::MAX } else { bit(value) }
}

fn bit(value: &str) -> u64 {
    1 << (FixedState::default().hash_one(value) % 64)
}
