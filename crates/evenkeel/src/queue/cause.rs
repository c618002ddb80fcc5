//! Why a key is in the queue.
//!
//! Each add has one [`Cause`]. The queue merges them into [`Causes`], which is bounded: it may drop
//! details, but never a kind of cause. Causes are for logs and the journal; a reconciler must not
//! decide by them.
//!
//! The common case, one cause about the object of the key, takes 24 bytes and no allocation.

mod merged;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::merged::Causes;
use crate::{Key, Kind};

/// Causes that are merged when adds of one key are merged.
pub trait Merge {
    /// Merges a later one into this.
    fn merge(&mut self, later: Self);

    /// Drops the causes of timers that have not fired: the key is due for another reason.
    fn drop_timers(&mut self) {}
}

/// For queues without causes.
impl Merge for () {
    fn merge(&mut self, (): Self) {}
}

/// The cause of an add.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::queue::{Cause, CauseKind, Causes};
///
/// let causes = Causes::from(Cause::RequeueAfter(Duration::from_secs(90)));
/// assert_eq!(causes.to_string(), "requeue after 90s");
/// assert!(causes.kinds().contains(CauseKind::RequeueAfter));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// This object was in the initial list.
    Listed(Origin),
    /// This object was created.
    Created(Origin),
    /// This object was updated.
    Updated(Origin, Change),
    /// This object was deleted.
    Deleted(Origin),
    /// A periodic resync of this object, which has not changed.
    Resync(Origin),
    /// The reconciler requeued the key.
    Requeue,
    /// The reconciler requeued the key with a delay.
    RequeueAfter(Duration),
    /// A retry after this many consecutive failures.
    Retry(u32),
    /// A source by name: a channel, a stream, an interval.
    External(Arc<str>),
}

/// The object of a cause: the object of the queued key, or another one.
///
/// A shared pointer: clone one value per kind for the keys' own objects, so that a cause needs no
/// allocation.
///
/// ```
/// use evenkeel::queue::Origin;
/// use evenkeel::{Key, Kind};
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let kind = Kind::of::<Deployment>();
/// assert_eq!(Origin::own(kind.clone()).to_string(), "Deployment");
/// let other = Origin::other(kind, Key::namespaced("shop", "web"));
/// assert_eq!(other.to_string(), "Deployment shop/web");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Origin(Arc<Inner>);

#[derive(PartialEq, Eq)]
enum Inner {
    Own(Kind),
    Other(Kind, Key),
    /// A source, stored in place of an object; internal.
    External(Arc<str>),
}

impl Origin {
    /// Returns the origin for the object of the queued key.
    #[must_use]
    pub fn own(kind: Kind) -> Self {
        Self(Arc::new(Inner::Own(kind)))
    }

    /// Returns the origin for another object, such as one owned by the object of the queued key.
    #[must_use]
    pub fn other(kind: Kind, key: Key) -> Self {
        Self(Arc::new(Inner::Other(kind, key)))
    }

    /// Returns the kind of the object.
    #[must_use]
    pub fn kind(&self) -> Option<&Kind> {
        match &*self.0 {
            Inner::Own(kind) | Inner::Other(kind, _) => Some(kind),
            Inner::External(_) => None,
        }
    }

    /// Returns the key of the object, unless it is the queued key.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match &*self.0 {
            Inner::Other(_, key) => Some(key),
            Inner::Own(_) | Inner::External(_) => None,
        }
    }
}

/// `Deployment` for the queued object itself, `Deployment shop/web` for another.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Inner::Own(kind) => f.write_str(kind.kind()),
            Inner::Other(kind, key) => write!(f, "{} {key}", kind.kind()),
            Inner::External(name) => f.write_str(name),
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What an update changed, according to the metadata.
///
/// ```
/// use evenkeel::queue::Change;
///
/// let mut change = Change::default();
/// (change.generation, change.labels) = (Some((3, 4)), true);
/// assert_eq!(change.to_string(), "generation 3→4, labels");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The generation before and after, if it changed.
    pub generation: Option<(i64, i64)>,
    /// Labels changed.
    pub labels: bool,
    /// Annotations changed.
    pub annotations: bool,
    /// Finalizers changed.
    pub finalizers: bool,
    /// Owner references changed.
    pub owners: bool,
    /// deletionTimestamp was set.
    pub deletion: bool,
    /// The object was deleted and created again.
    pub replaced: bool,
    /// The status changed: neither the generation nor any of the above did.
    pub status: bool,
    /// The content of an object without generation changed, such as the data of a ConfigMap.
    pub content: bool,
}

impl Change {
    /// Attributes a write that changed none of the metadata to the status, or to the content if the
    /// object has no generation.
    pub(crate) fn or_rest(self, written: bool, has_generation: bool) -> Self {
        let rest = written && self == Self::default();
        Self { status: rest && has_generation, content: rest && !has_generation, ..self }
    }

    const NAMES: [&str; 8] = [
        "labels",
        "annotations",
        "finalizers",
        "owners",
        "deletion",
        "replaced",
        "status",
        "content",
    ];

    fn bits(self) -> u8 {
        let Self { labels, annotations, finalizers, owners, deletion, replaced, .. } = self;
        let metadata = [labels, annotations, finalizers, owners, deletion, replaced];
        let flags = metadata.into_iter().chain([self.status, self.content]);
        (0..).zip(flags).fold(0, |bits, (place, flag)| bits | u8::from(flag) << place)
    }

    fn from_bits(generation: Option<(i64, i64)>, bits: u8) -> Self {
        let flag = |place: u8| bits & 1 << place != 0;
        Self {
            generation,
            labels: flag(0),
            annotations: flag(1),
            finalizers: flag(2),
            owners: flag(3),
            deletion: flag(4),
            replaced: flag(5),
            status: flag(6),
            content: flag(7),
        }
    }
}

/// `generation 3→4, labels`; empty if nothing changed.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits();
        let mut separator = "";
        if let Some((from, to)) = self.generation {
            write!(f, "generation {from}→{to}")?;
            separator = ", ";
        }
        for (place, name) in Self::NAMES.iter().enumerate() {
            if bits & 1 << place != 0 {
                write!(f, "{separator}{name}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

/// The kinds of [`Cause`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CauseKind {
    /// [`Cause::Listed`].
    Listed,
    /// [`Cause::Created`].
    Created,
    /// [`Cause::Updated`].
    Updated,
    /// [`Cause::Deleted`].
    Deleted,
    /// [`Cause::Resync`].
    Resync,
    /// [`Cause::Requeue`].
    Requeue,
    /// [`Cause::RequeueAfter`].
    RequeueAfter,
    /// [`Cause::Retry`].
    Retry,
    /// [`Cause::External`].
    External,
}

impl CauseKind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Listed,
        Self::Created,
        Self::Updated,
        Self::Deleted,
        Self::Resync,
        Self::Requeue,
        Self::RequeueAfter,
        Self::Retry,
        Self::External,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Resync => "resync",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue after",
            Self::Retry => "retry",
            Self::External => "external",
        }
    }

    /// Returns the name as a label of metrics.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::RequeueAfter => "requeue_after",
            other => other.name(),
        }
    }
}

impl fmt::Display for CauseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of kinds of cause.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CauseKinds(u16);

impl CauseKinds {
    /// The kinds that have a delay.
    const TIMERS: Self = Self::one(CauseKind::Requeue)
        .union(Self::one(CauseKind::RequeueAfter))
        .union(Self::one(CauseKind::Retry));

    const fn one(kind: CauseKind) -> Self {
        Self(1 << kind as u16)
    }

    /// Returns whether a kind is in the set.
    #[must_use]
    pub const fn contains(self, kind: CauseKind) -> bool {
        self.0 & Self::one(kind).0 != 0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the kinds in the order of [`CauseKind`].
    pub fn iter(self) -> impl Iterator<Item = CauseKind> {
        CauseKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }

    const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The kinds, separated by commas.
impl fmt::Display for CauseKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        self.iter()
            .try_for_each(|kind| write!(f, "{}{kind}", std::mem::replace(&mut separator, ", ")))
    }
}

impl fmt::Debug for CauseKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
