//! The causes of one queued key, merged and packed.
//!
//! Causes about one object are merged into one [`Detail`], as are those without an object. Up to
//! four details are stored; further causes are only counted, with their kind.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Cause, CauseKind, CauseKinds, Change, Inner, Merge, Origin};

/// The maximum number of details.
const DETAILS_MAX: usize = 4;

/// The merged causes of a queued key since it was last processed.
///
/// ```
/// use evenkeel::queue::{Cause, Causes, CauseKind, Change, Merge, Origin};
/// use evenkeel::{Key, Kind};
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let web = Origin::other(Kind::of::<Deployment>(), Key::namespaced("shop", "web"));
/// let mut change = Change::default();
/// change.generation = Some((3, 4));
/// let mut causes = Causes::from(Cause::Updated(web, change));
/// causes.merge(Cause::Retry(3).into());
/// assert_eq!(causes.to_string(), "Deployment shop/web updated (generation 3→4), retry 3");
/// assert!(causes.kinds().contains(CauseKind::Retry));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Causes(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    One(Detail),
    Many(Box<Many>),
}

#[derive(Clone, PartialEq, Eq)]
struct Many {
    /// Of all causes, including those without detail.
    kinds: CauseKinds,
    count: u32,
    details: Vec<Detail>,
}

/// The causes of one origin, packed so that [`Causes`] has 24 bytes.
#[derive(Clone, Default, PartialEq, Eq)]
struct Detail {
    origin: Option<Origin>,
    /// For an object, the generation before and after, both 0 if unchanged; otherwise the number of
    /// the retry and the delay in milliseconds.
    numbers: [u32; 2],
    count: u32,
    kinds: CauseKinds,
    /// See [`Change::bits`].
    fields: u8,
    about: About,
}

/// Whether a detail has an origin. Its unused values are the niche of [`Repr`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum About {
    #[default]
    Nothing,
    Origin,
}

const _: () = assert!(size_of::<Causes>() == 24, "causes are stored per queued key");

impl Causes {
    /// Returns the kinds of all causes.
    #[must_use]
    pub fn kinds(&self) -> CauseKinds {
        match &self.0 {
            Repr::One(detail) => detail.kinds,
            Repr::Many(many) => many.kinds,
        }
    }

    /// Returns the number of merged causes.
    #[must_use]
    pub fn count(&self) -> u32 {
        match &self.0 {
            Repr::One(detail) => detail.count,
            Repr::Many(many) => many.count,
        }
    }

    /// Iterates over the causes with details, in the order of their first add. Causes of one kind
    /// about one object are merged: an update from the first generation to the last.
    pub fn iter(&self) -> impl Iterator<Item = Cause> {
        self.details()
            .iter()
            .flat_map(|detail| detail.kinds.iter().filter_map(|kind| detail.cause(kind)))
    }

    fn details(&self) -> &[Detail] {
        match &self.0 {
            Repr::One(detail) => std::slice::from_ref(detail),
            Repr::Many(many) => &many.details,
        }
    }

    fn take(&mut self, later: Detail) {
        match &mut self.0 {
            Repr::One(none) if none.count == 0 => *none = later,
            Repr::One(one) if one.is_about_same(&later) => one.absorb(&later),
            Repr::One(one) => {
                let (kinds, count) = (one.kinds, one.count);
                let details = vec![std::mem::take(one), later];
                self.0 = Repr::Many(Box::new(Many { kinds, count, details }));
            }
            Repr::Many(many) => {
                let full = many.details.len() == DETAILS_MAX;
                let same = many.details.iter_mut().find(|detail| detail.is_about_same(&later));
                match same {
                    Some(same) => same.absorb(&later),
                    None if full => {}
                    None => many.details.push(later),
                }
            }
        }
    }
}

impl Default for Repr {
    fn default() -> Self {
        Self::One(Detail::default())
    }
}

impl Merge for Causes {
    fn merge(&mut self, later: Self) {
        if later.kinds().is_empty() {
            return;
        }
        let kinds = self.kinds().union(later.kinds());
        let count = self.count().saturating_add(later.count());
        match later.0 {
            Repr::One(detail) => self.take(detail),
            Repr::Many(many) => many.details.into_iter().for_each(|detail| self.take(detail)),
        }
        if let Repr::Many(many) = &mut self.0 {
            (many.kinds, many.count) = (kinds, count);
        }
    }

    fn drop_timers(&mut self) {
        match &mut self.0 {
            Repr::One(one) => {
                one.drop_timers();
            }
            Repr::Many(many) => {
                let dropped: u32 = many.details.iter_mut().map(Detail::drop_timers).sum();
                many.details.retain(|detail| detail.count > 0);
                many.kinds = many.kinds.without(CauseKinds::TIMERS);
                many.count = many.count.saturating_sub(dropped);
            }
        }
    }
}

impl From<Cause> for Causes {
    fn from(cause: Cause) -> Self {
        Self(Repr::One(Detail::from(cause)))
    }
}

impl From<Cause> for Detail {
    fn from(cause: Cause) -> Self {
        let about = |kind, origin| Self {
            origin: Some(origin),
            count: 1,
            kinds: CauseKinds::one(kind),
            about: About::Origin,
            ..Self::default()
        };
        let plain = |kind, numbers| Self {
            numbers,
            count: 1,
            kinds: CauseKinds::one(kind),
            ..Self::default()
        };
        match cause {
            Cause::Listed(origin) => about(CauseKind::Listed, origin),
            Cause::Created(origin) => about(CauseKind::Created, origin),
            Cause::Updated(origin, change) => Self {
                numbers: change
                    .generation
                    .map_or([0, 0], |(from, to)| [saturate(from), saturate(to)]),
                fields: change.bits(),
                ..about(CauseKind::Updated, origin)
            },
            Cause::Deleted(origin) => about(CauseKind::Deleted, origin),
            Cause::Resync(origin) => about(CauseKind::Resync, origin),
            Cause::Requeue => plain(CauseKind::Requeue, [0, 0]),
            Cause::RequeueAfter(delay) => {
                plain(CauseKind::RequeueAfter, [0, saturate(delay.as_millis())])
            }
            Cause::Retry(number) => plain(CauseKind::Retry, [number, 0]),
            Cause::External(name) => {
                about(CauseKind::External, Origin(Arc::new(Inner::External(name))))
            }
        }
    }
}

impl Detail {
    fn is_about_same(&self, other: &Self) -> bool {
        self.origin == other.origin
    }

    fn absorb(&mut self, later: &Self) {
        let [before, after] = &mut self.numbers;
        match self.about {
            // From the first generation to the last.
            About::Origin if later.numbers != [0, 0] => {
                if [*before, *after] == [0, 0] {
                    *before = later.numbers[0];
                }
                *after = later.numbers[1];
            }
            About::Origin => {}
            About::Nothing => {
                if later.kinds.contains(CauseKind::Retry) {
                    *before = later.numbers[0];
                }
                if later.kinds.contains(CauseKind::RequeueAfter) {
                    *after = later.numbers[1];
                }
            }
        }
        self.count = self.count.saturating_add(later.count);
        self.kinds = self.kinds.union(later.kinds);
        self.fields |= later.fields;
    }

    /// Drops the causes with a delay; returns their number.
    fn drop_timers(&mut self) -> u32 {
        // A detail without an object has only such causes, one with an object has none.
        match self.about {
            About::Origin => 0,
            About::Nothing => std::mem::take(self).count,
        }
    }

    fn change(&self) -> Change {
        let [from, to] = self.numbers;
        let generation = (self.numbers != [0, 0]).then_some((i64::from(from), i64::from(to)));
        Change::from_bits(generation, self.fields)
    }

    fn delay(&self) -> Duration {
        Duration::from_millis(u64::from(self.numbers[1]))
    }

    /// Returns the cause of one kind of this detail.
    fn cause(&self, kind: CauseKind) -> Option<Cause> {
        let origin = self.origin.clone();
        Some(match kind {
            CauseKind::Listed => Cause::Listed(origin?),
            CauseKind::Created => Cause::Created(origin?),
            CauseKind::Updated => Cause::Updated(origin?, self.change()),
            CauseKind::Deleted => Cause::Deleted(origin?),
            CauseKind::Resync => Cause::Resync(origin?),
            CauseKind::Requeue => Cause::Requeue,
            CauseKind::RequeueAfter => Cause::RequeueAfter(self.delay()),
            CauseKind::Retry => Cause::Retry(self.numbers[0]),
            CauseKind::External => match &*origin?.0 {
                Inner::External(name) => Cause::External(Arc::clone(name)),
                Inner::Own(_) | Inner::Other(..) => return None,
            },
        })
    }
}

/// Saturates to 32 bits.
fn saturate(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

/// One line: `WebApp created and updated (generation 1→2), retry 3`. If there are more causes,
/// ` and 5 more (deleted)` with the kinds that are not shown. The precision limits the number of
/// details, and `#` omits the kind of the key's own object: `{:#.1}`.
impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kinds().is_empty() {
            return f.write_str("no cause");
        }
        let (mut kinds, mut count) = (CauseKinds::default(), 0_u32);
        let shown = f.precision().unwrap_or(DETAILS_MAX);
        for (place, detail) in self.details().iter().take(shown).enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            fmt::Display::fmt(detail, f)?;
            kinds = kinds.union(detail.kinds);
            count = count.saturating_add(detail.count);
        }
        let more = self.count().saturating_sub(count);
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        match self.kinds().without(kinds) {
            lost if lost.is_empty() => Ok(()),
            lost => write!(f, " ({lost})"),
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = |origin: &&Origin| matches!(&*origin.0, Inner::Own(_));
        if let Some(origin) = self.origin.as_ref().filter(|origin| !(f.alternate() && own(origin)))
        {
            write!(f, "{origin} ")?;
        }
        let mut separator = "";
        for kind in self.kinds.iter() {
            f.write_str(separator)?;
            separator = if self.origin.is_some() { " and " } else { ", " };
            match kind {
                CauseKind::Retry => write!(f, "retry {}", self.numbers[0])?,
                CauseKind::RequeueAfter => write!(f, "requeue after {:?}", self.delay())?,
                CauseKind::Updated => {
                    f.write_str("updated")?;
                    match self.change() {
                        change if change == Change::default() => {}
                        change => write!(f, " ({change})")?,
                    }
                }
                kind => f.write_str(kind.name())?,
            }
        }
        if self.count as usize > self.kinds.iter().count() {
            write!(f, " ×{}", self.count)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Causes({self})")
    }
}
