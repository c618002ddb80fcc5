//! Operators with one planted bug each, after real ones: the simulation must find it, name its class
//! and show it with at most two faults. One file per class.
//!
//! The list of all of them is the table that `cargo xtask campaign planted` prints.

mod stale_view;

mod crash;

mod wake_up;

mod transition;

mod ownership;

mod hot_loop;

mod status;

mod panics;

mod application;

mod leaks;

mod rest;

mod protocol;

mod leadership;

mod webhooks;

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel::prelude::*;
use evenkeel_sim::{BugClass, Effect, Simulation};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use crate::operators::{App, part};

pub(crate) use leadership::lost_lease_is_only_logged;
pub(crate) use rest::retries_in_place;

/// Why an oracle is disabled.
const OTHER: &str = "the planted bug is another one";

/// An operator with a bug.
pub(crate) struct Planted {
    /// Its name.
    name: &'static str,
    /// The rows of the reference's table of real bugs that have the same mechanism.
    rows: &'static [u8],
    /// The real bug.
    after: &'static str,
    /// The class that the report must name.
    class: BugClass,
    /// What in the runtime prevents the bug; the operator goes around it.
    prevented_by: &'static str,
    simulation: fn() -> Simulation,
}

/// The rows of the reference that must be planted.
const ROWS: &[u8] = &[
    1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 26, 28, 29, 30, 31, 32, 33, 34, 37, 40,
    41, 47, 48,
];

const ROOMS: &[&[Planted]] = &[
    stale_view::PLANTED,
    crash::PLANTED,
    wake_up::PLANTED,
    transition::PLANTED,
    ownership::PLANTED,
    hot_loop::PLANTED,
    status::PLANTED,
    panics::PLANTED,
    application::PLANTED,
    leaks::PLANTED,
    rest::PLANTED,
    protocol::PLANTED,
    leadership::PLANTED,
    webhooks::PLANTED,
];

#[test]
fn every_row_is_planted() {
    let all = || ROOMS.iter().flat_map(|room| room.iter());
    let rows: BTreeSet<u8> = all().flat_map(|it| it.rows.iter().copied()).collect();
    let missing: Vec<&u8> = ROWS.iter().filter(|row| !rows.contains(row)).collect();
    assert!(missing.is_empty(), "no planted bug for {missing:?}");
    let names: BTreeSet<&str> = all().map(|it| it.name).collect();
    assert_eq!(names.len(), all().count(), "names are unique: the plans are stored by name");
}

/// Expects that each bug is found and named; prints the table.
#[track_caller]
#[expect(clippy::print_stdout, reason = "the table is a result")]
fn find_all(room: &[Planted]) {
    let mut wrong = Vec::new();
    for planted in room {
        let mut simulation = (planted.simulation)().budget(Duration::from_secs(300));
        if planted.name != ownership::TAKES_WHAT_EXISTS {
            let reason = "most operators that go around the runtime have this bug, too";
            simulation = simulation.without_fault(Effect::TakeName(0), reason);
        }
        let report = simulation.explore();
        let rows: Vec<String> = planted.rows.iter().map(ToString::to_string).collect();
        let mut line = format!("| {} | {} | {}", rows.join(", "), planted.after, planted.name);
        match &report.finding {
            None => {
                line += &format!(" | {} | NOT FOUND: {} |", planted.class, report.coverage);
                wrong.push(line.clone());
            }
            Some(finding) => {
                let faults: Vec<String> =
                    finding.plan.faults.iter().map(ToString::to_string).collect();
                let faults =
                    if faults.is_empty() { "no fault".to_owned() } else { faults.join("; ") };
                let oracle = finding.violation.oracle;
                let (plans, seconds) = (report.coverage.run, report.coverage.seconds);
                line += &format!(" | {} ({oracle:?}) | {faults} |", finding.class);
                line += &format!(" {plans} | {seconds:.1} s | {} |", planted.prevented_by);
                if finding.class != planted.class || finding.plan.faults.len() > 2 {
                    wrong.push(format!("{line}\nexpected: {}\n{report}", planted.class));
                }
            }
        }
        println!("{line}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn stale_views_are_found() {
    find_all(stale_view::PLANTED);
}

#[test]
fn crashes_between_writes_are_found() {
    find_all(crash::PLANTED);
}

#[test]
fn lost_wake_ups_are_found() {
    find_all(wake_up::PLANTED);
}

#[test]
fn wrong_transitions_are_found() {
    find_all(transition::PLANTED);
}

#[test]
fn wrong_ownership_is_found() {
    find_all(ownership::PLANTED);
}

#[test]
fn hot_loops_are_found() {
    find_all(hot_loop::PLANTED);
}

#[test]
fn premature_status_is_found() {
    find_all(status::PLANTED);
}

#[test]
fn panics_are_found() {
    find_all(panics::PLANTED);
}

#[test]
fn wrong_calls_of_an_application_are_found() {
    find_all(application::PLANTED);
}

#[test]
fn leaks_are_found() {
    find_all(leaks::PLANTED);
}

#[test]
fn exposed_secrets_delays_and_nondeterminism_are_found() {
    find_all(rest::PLANTED);
}

#[test]
fn mistakes_in_lists_and_watches_are_found() {
    find_all(protocol::PLANTED);
}

#[test]
fn writes_without_the_lease_are_found() {
    find_all(leadership::PLANTED);
}

#[test]
fn webhooks_that_block_the_operator_are_found() {
    find_all(webhooks::PLANTED);
}

/// Returns the child with the owner set.
fn owned(app: &App, number: i32) -> ConfigMap {
    let mut map = part(app, number);
    evenkeel::owner::set_controller_reference(app, &mut map).unwrap();
    map
}

/// Returns the child with the owner set and a generated name.
fn generated(app: &App, prefix: &str) -> ConfigMap {
    let mut map = owned(app, 0);
    map.metadata.name = None;
    map.metadata.generate_name = Some(format!("{prefix}-"));
    map
}

/// Returns a client that bypasses the cache and its knowledge of own writes, as operators without
/// Evenkeel do.
fn raw(cx: &Context<App>) -> Api<ConfigMap> {
    Api::namespaced(cx.client().kube().clone(), "default")
}

/// Returns the declared number of parts.
fn size(app: &App) -> usize {
    usize::try_from(app.spec.size).unwrap_or_default()
}
