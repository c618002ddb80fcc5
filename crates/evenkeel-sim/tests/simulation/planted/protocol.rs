//! Lists and watches by hand: what a server may do between two events.

use evenkeel_sim::{BugClass, Oracle, Simulation};

use super::{OTHER, Planted};
use crate::by_hand::{Bug, simulate_by_hand};

const REFLECTOR: &str = "caches of the runtime, which list and watch";

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "expired-page-ends-the-list",
        rows: &[18],
        after: "kube-rs #1524, #1525",
        class: BugClass::LostWakeUp,
        prevented_by: REFLECTOR,
        simulation: || planted("expired-page-ends-the-list", Bug::ExpiredPage, false),
    },
    Planted {
        name: "bookmark-plus-one",
        rows: &[],
        after: "a client that calculates with resource versions",
        class: BugClass::LostWakeUp,
        prevented_by: REFLECTOR,
        simulation: || planted("bookmark-plus-one", Bug::BookmarkPlusOne, false),
    },
    Planted {
        name: "version-too-large-for-ever",
        rows: &[23],
        after: "kubernetes #91073, #107133",
        class: BugClass::LostWakeUp,
        prevented_by: REFLECTOR,
        simulation: || planted("version-too-large-for-ever", Bug::TooLargeVersion, false),
    },
    Planted {
        name: "waits-for-the-next-list",
        rows: &[45],
        after: "kube-rs #1953: every new connection fails, and watches continue",
        class: BugClass::LostWakeUp,
        prevented_by: "a returned error is always retried",
        simulation: || planted("waits-for-the-next-list", Bug::WaitsForList, false),
    },
    Planted {
        name: "empty-store-while-listing",
        rows: &[],
        after: "kubernetes #88097: dependents are deleted while their owners are not known",
        class: BugClass::StaleView,
        prevented_by: "caches of the runtime keep the last state until the next one is complete",
        simulation: || planted("empty-store-while-listing", Bug::EmptyStore, true),
    },
];

fn planted(name: &str, bug: Bug, collects: bool) -> Simulation {
    // Most of these need many plans; without a second run and the deletion each takes half the time.
    simulate_by_hand(name, bug, collects)
        .disable(Oracle::Determinism, OTHER)
        .disable(Oracle::Leftovers, OTHER)
}
