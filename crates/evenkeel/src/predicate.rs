//! Predicates: filters on events.
//!
//! Predicates on changes apply to updates only, and an update that sets the deletionTimestamp
//! always passes them, so that no deletion is lost.

use std::fmt;
use std::sync::Arc;

use kube::core::{Selector, SelectorExt as _};

use crate::cache::event::ObjectEvent;
use crate::cache::{Entry, Meta};
use crate::kind::AnyObject;

/// A filter on events; events that do not pass it are dropped before they are enqueued.
///
/// ```
/// use evenkeel::predicate;
///
/// let relevant = predicate::generation_changed().or(predicate::labels_changed());
/// # let _ = relevant;
/// ```
#[derive(Clone)]
#[must_use]
pub struct Predicate(Arc<Test>);

enum Test {
    /// Compares the states of an update; undecided on other events.
    Change(&'static str, fn(&Meta, &Meta, &ObjectEvent) -> bool),
    /// Tests any event.
    Event(Box<dyn Fn(&ObjectEvent) -> bool + Send + Sync>),
    And(Predicate, Predicate),
    Or(Predicate, Predicate),
    Not(Predicate),
}

impl Predicate {
    /// Creates a predicate from a function.
    ///
    /// ```
    /// use evenkeel::predicate::Predicate;
    ///
    /// let in_shop = Predicate::new(|event| {
    ///     event.object().meta().key().namespace() == Some("shop")
    /// });
    /// # let _ = in_shop;
    /// ```
    pub fn new(test: impl Fn(&ObjectEvent) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(Test::Event(Box::new(test))))
    }

    /// Creates a predicate on the decoded object: the new state, or the last one of a deletion.
    ///
    /// An object that does not decode passes, so that the read of the reconciler fails with the
    /// error.
    ///
    /// ```
    /// use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// use evenkeel::predicate::Predicate;
    ///
    /// let bound = Predicate::of(|pod: &Pod| {
    ///     pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
    /// });
    /// let unbound = !bound;
    /// # let _ = unbound;
    /// ```
    pub fn of<K: AnyObject>(test: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| match event.object().decode::<K>() {
            Ok(object) => test(&object),
            Err(_) => true,
        })
    }

    /// Passes events that pass both.
    pub fn and(self, other: Self) -> Self {
        Self(Arc::new(Test::And(self, other)))
    }

    /// Passes events that pass either.
    pub fn or(self, other: Self) -> Self {
        Self(Arc::new(Test::Or(self, other)))
    }

    /// Returns whether `event` passes.
    #[must_use]
    pub fn passes(&self, event: &ObjectEvent) -> bool {
        self.opinion(event).unwrap_or(true)
    }

    /// Returns `None` if the predicate does not apply to this type of event; its negation does not
    /// apply either.
    fn opinion(&self, event: &ObjectEvent) -> Option<bool> {
        match &*self.0 {
            Test::Change(_, differs) => match event {
                ObjectEvent::Updated { old, new } => {
                    let (old, new) = (old.meta(), new.meta());
                    // Marked for deletion, or replaced by another object: such updates always pass.
                    if old.uid != new.uid || old.deleting != new.deleting {
                        return None;
                    }
                    Some(differs(old, new, event))
                }
                ObjectEvent::Resynced { .. } => Some(false),
                ObjectEvent::Added { .. } | ObjectEvent::Deleted { .. } => None,
            },
            Test::Event(test) => Some(test(event)),
            // Undecided if neither side decides; undecided events pass.
            Test::And(a, b) => match (a.opinion(event), b.opinion(event)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Test::Or(a, b) => match (a.opinion(event), b.opinion(event)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Test::Not(inner) => inner.opinion(event).map(|passes| !passes),
        }
    }
}

/// Passes events that the predicate does not.
impl std::ops::Not for Predicate {
    type Output = Self;

    fn not(self) -> Self {
        Self(Arc::new(Test::Not(self)))
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Test::Change(name, _) => f.write_str(name),
            Test::Event(_) => f.write_str("custom"),
            Test::And(a, b) => write!(f, "({a:?} and {b:?})"),
            Test::Or(a, b) => write!(f, "({a:?} or {b:?})"),
            Test::Not(inner) => write!(f, "not {inner:?}"),
        }
    }
}

fn change(name: &'static str, differs: fn(&Meta, &Meta, &ObjectEvent) -> bool) -> Predicate {
    Predicate(Arc::new(Test::Change(name, differs)))
}

/// Passes updates that change metadata.generation; updates of the status are dropped.
///
/// For types without generation, such as `ConfigMap` and `Secret`, every update passes.
pub fn generation_changed() -> Predicate {
    change("generation changed", |old, new, _| {
        old.generation != new.generation || new.generation == 0 && old.version != new.version
    })
}

/// Passes all updates; resyncs are dropped.
pub fn resource_version_changed() -> Predicate {
    change("resourceVersion changed", |old, new, _| old.version != new.version)
}

/// Passes updates that change labels.
pub fn labels_changed() -> Predicate {
    change("labels changed", |old, new, _| old.labels != new.labels)
}

/// Passes updates that change annotations.
pub fn annotations_changed() -> Predicate {
    change("annotations changed", |_, _, event| {
        event.old().map(|old| old.annotations_json())
            != event.new().map(|new| new.annotations_json())
    })
}

/// Passes updates that change finalizers.
pub fn finalizers_changed() -> Predicate {
    change("finalizers changed", |old, new, _| old.finalizers != new.finalizers)
}

/// Passes events of objects whose labels match before or after the change.
///
/// ```
/// use evenkeel::kube::core::Expression;
/// use evenkeel::predicate;
///
/// let front_end = Expression::Equal("tier".to_owned(), "front-end".to_owned());
/// let relevant = predicate::label_selector(front_end).and(predicate::generation_changed());
/// # let _ = relevant;
/// ```
pub fn label_selector(selector: impl Into<Selector>) -> Predicate {
    let selector = selector.into();
    let matches = move |entry: &Arc<Entry>| {
        let labels = entry.meta().labels().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        selector.matches(&labels)
    };
    Predicate::new(move |event| {
        event.old().is_some_and(&matches) || event.new().is_some_and(&matches)
    })
}
