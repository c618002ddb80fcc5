//! Runs the simulations of correct operators with many plans: `cargo xtask campaign simulations
//! [seconds]`. Every violation is a false alarm, or a bug of the operator or of the runtime.

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::cargo::cargo;

/// The packages whose tests contain simulations of correct operators.
const PACKAGES: &[&str] = &["evenkeel-sim", "appservice", "operators"];

/// What the names of their tests end with.
const TESTS: &str = "survives_faults";

/// The seconds for each operator.
const DEFAULT_SECONDS: u32 = 60;

/// What a line of the output of a simulation begins with.
const LINE: &str = "simulation of ";

/// Runs the campaign with this number of seconds for each operator.
///
/// # Errors
/// If cargo cannot be run, or an oracle is violated.
#[expect(clippy::print_stdout, reason = "a command line tool prints its results")]
pub(crate) fn run(seconds: Option<&str>) -> Result<(), Box<dyn Error>> {
    let seconds = match seconds {
        Some(text) => text.parse()?,
        None => DEFAULT_SECONDS,
    };
    let mut command = cargo();
    command.args(["test", "--release", "--no-fail-fast"]);
    for package in PACKAGES {
        command.args(["-p", package]);
    }
    // The doc tests have none.
    command.args(["--lib", "--bins", "--tests", TESTS, "--", "--nocapture", "--test-threads=1"]);
    command.env("SIM_TIER", "T1").env("SIM_BUDGET", seconds.to_string());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let (mut operators, mut plans, mut twice, mut alarms) = (0, 0, 0, 0);
    for line in BufReader::new(child.stdout.take().ok_or("no output")?).lines() {
        let line = line?;
        // The name of the test may precede it.
        if let Some(at) = line.find(LINE) {
            println!("{}", &line[at..]);
            operators += 1;
            plans += number_before(&line[at..], " of ").unwrap_or(0);
            twice += number_before(&line[at..], " of them twice").unwrap_or(0);
        }
        if line.ends_with("FAILED") && line.starts_with("test ") {
            println!("{line}");
            alarms += 1;
        }
    }
    let status = child.wait()?;
    println!("operators: {operators}\nplans:    {plans}, {twice} run twice\nalarms:   {alarms}");
    match status.success() {
        true => Ok(()),
        false => Err("a simulation failed".into()),
    }
}

/// Returns the number before a text in `simulation of NAME: N of M plans run in 1.0 s, K of them twice`.
fn number_before(line: &str, text: &str) -> Option<usize> {
    let (_, coverage) = line.split_once(": ")?;
    coverage.split_once(text)?.0.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_plans_are_read() {
        let line =
            "simulation of web: 120 of 130 plans run in 1.0 s, 90 of them twice; 2 of 2 writes";
        assert_eq!(number_before(line, " of "), Some(120));
        assert_eq!(number_before(line, " of them twice"), Some(90));
        assert_eq!(number_before("simulation of web", " of "), None);
    }
}
