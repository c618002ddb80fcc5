//! Runs randomized tests with many seeds: `cargo run -p xtask -- campaign <name> [from..to]`.
//!
//! CI runs the same tests with a few fixed seeds. A campaign prints what is needed to repeat it:
//! the commit and the seeds.

use std::error::Error;
use std::process::Command;

use crate::cargo::cargo;
use crate::{mutants, simulations};

/// The campaigns with programs of their own.
const MUTANTS: &str = "mutants";
const SIMULATIONS: &str = "simulations";

/// The campaigns and the arguments of `cargo` that run their tests.
const CAMPAIGNS: &[(&str, &[&str])] = &[
    ("finalizers", &["test", "-p", "evenkeel-cluster", "--lib", "finalizers::model"]),
    ("handovers", &["test", "-p", "evenkeel", "--test", "it", "handovers::", "--", "--nocapture"]),
    ("planted", PLANTED),
    ("stops", &["test", "-p", "evenkeel", "--test", "it", "stops::", "--", "--nocapture"]),
    // A rotation in real time and ten in virtual time per seed.
    ("rotations", ROTATIONS),
    (
        "watches",
        &[
            "test",
            "--release",
            "-p",
            "evenkeel",
            "--lib",
            "thousands_of_faults",
            "--",
            "--nocapture",
        ],
    ),
    (
        "durability",
        &[
            "test",
            "--release",
            "-p",
            "evenkeel-apiserver",
            "--lib",
            "crashes::",
            "--",
            "--nocapture",
        ],
    ),
    // A day of virtual time per seed.
    (
        "soak",
        &["test", "--release", "-p", "evenkeel", "--test", "it", "soak::", "--", "--nocapture"],
    ),
    // 10,000 objects, whatever the seeds are.
    (
        "poisoned",
        &["test", "--release", "-p", "evenkeel", "--test", "it", "poisoned::", "--", "--nocapture"],
    ),
];

const ROTATIONS: &[&str] =
    &["test", "-p", "evenkeel", "--lib", "--test", "webhooks", "rotate", "--", "--nocapture"];

/// Operators with a bug: prints the table. The seeds have no effect.
const PLANTED: &[&str] = &[
    "test",
    "-p",
    "evenkeel-sim",
    "--test",
    "simulation",
    "planted::",
    "--",
    "--nocapture",
    "--test-threads=1",
];

/// The environment variable that passes the seeds to the tests.
const SEEDS: &str = "EVENKEEL_SEEDS";

const DEFAULT_SEEDS: &str = "1000..1200";

/// Runs a campaign.
///
/// # Errors
/// If the campaign is unknown, cargo cannot be run, or the tests fail.
#[expect(clippy::print_stdout, reason = "a command line tool prints its results")]
#[expect(clippy::disallowed_methods, reason = "measures real time")]
pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    if let [name, rest @ ..] = arguments
        && name == SIMULATIONS
    {
        println!("campaign: {name}\ncommit:   {}", commit()?);
        return simulations::run(rest.first().map(String::as_str));
    }
    if let [name, rest @ ..] = arguments
        && name == MUTANTS
    {
        println!("campaign: {name}\ncommit:   {}", commit()?);
        return mutants::run(rest);
    }
    let (name, seeds) = match arguments {
        [name] => (name.as_str(), DEFAULT_SEEDS),
        [name, seeds] => (name.as_str(), seeds.as_str()),
        _ => return Err(usage().into()),
    };
    let found = CAMPAIGNS.iter().find(|(known, _)| *known == name);
    let Some((_, tests)) = found else { return Err(usage().into()) };
    println!("campaign: {name}\ncommit:   {}\nseeds:    {seeds}", commit()?);
    let begin = std::time::Instant::now();
    let status = cargo().args(*tests).env(SEEDS, seeds).status()?;
    let result = if status.success() { "passed" } else { "FAILED" };
    println!("duration: {} s\nresult:   {result}", begin.elapsed().as_secs());
    if !status.success() {
        return Err(format!("campaign {name} failed; the panic message names the seed").into());
    }
    Ok(())
}

fn usage() -> String {
    let names: Vec<&str> = CAMPAIGNS.iter().map(|(name, _)| *name).collect();
    format!(
        "usage: campaign <name> [from..to], where <name> is one of: {}\n       \
         campaign {SIMULATIONS} [seconds]\n       \
         campaign {MUTANTS} [seconds] [text], where <text> limits it to the mutants with this text",
        names.join(", ")
    )
}

/// Returns the checked-out commit, with a suffix if the tree is dirty.
fn commit() -> Result<String, Box<dyn Error>> {
    let describe = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let output = Command::new("git").args(describe).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
