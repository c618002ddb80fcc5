//! Mutation testing of the correct operators: `cargo xtask campaign mutants [seconds] [text]`.
//!
//! Each mutant is an operator of this repository with one change that could be a mistake: a write that
//! is missing, another comparison, an error that is ignored ([`rewrite`] has all of them). The
//! simulation of the operator must find it. All mutants are in one build, in a workspace of its own
//! below `target` that starts with the artifacts of the campaign `simulations`, and a variable of the
//! environment selects one.
//!
//! A mutant that no test could find, because the operator does the same, is listed in
//! `mutants/equivalent.txt` with the reason.

mod edits;

mod rewrite;

use std::error::Error;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use rewrite::{Mutant, Source};
use serde_json::Value;
use tokio::time::Instant;

use crate::cargo::cargo;
use crate::templates::seed;

/// An operator with a simulation.
struct Operator {
    name: &'static str,
    /// The test that simulates it.
    target: &'static str,
    test: &'static str,
    /// The files of which mutants are made.
    files: &'static [&'static str],
}

const OPERATORS: &[Operator] = &[
    Operator {
        name: "appservice",
        target: "mutants-appservice",
        test: "operator_survives_faults",
        files: &["examples/appservice/src/operator.rs", "examples/appservice/src/dns.rs"],
    },
    Operator {
        name: "greeter",
        target: "mutants-greeting",
        test: "greeter_survives_faults",
        files: &["examples/operators/src/bin/greeting.rs"],
    },
    // It calls the operator `parts`.
    Operator {
        name: "finalized",
        target: "mutants-simulation",
        test: "finalized_survives_faults",
        files: &[
            "crates/evenkeel-sim/tests/simulation/good.rs",
            "crates/evenkeel-sim/tests/simulation/operators.rs",
        ],
    },
    Operator {
        name: "restart",
        target: "mutants-simulation",
        test: "restart_survives_faults",
        files: &["crates/evenkeel-sim/tests/simulation/good/restart.rs"],
    },
    Operator {
        name: "certificate",
        target: "mutants-simulation",
        test: "certificate_survives_faults",
        files: &["crates/evenkeel-sim/tests/simulation/good/certificate.rs"],
    },
    Operator {
        name: "training",
        target: "mutants-simulation",
        test: "training_survives_faults",
        files: &["crates/evenkeel-sim/tests/simulation/good/training.rs"],
    },
    Operator {
        name: "database",
        target: "mutants-simulation",
        test: "database_survives_faults",
        files: &["crates/evenkeel-sim/tests/simulation/good/database.rs"],
    },
];

/// The directories with the other files of the package, and other files.
const COPIED: &[&str] = &[
    "examples/appservice/tests",
    "crates/evenkeel-sim/tests/simulation/good",
    "crates/evenkeel-sim/tests/simulation/by_hand.rs",
];

/// The directories of this repository, and those of their files in the package.
const PLACES: &[(&str, &str)] = &[
    ("examples/appservice/src/", "tests/mutants-appservice/"),
    ("examples/appservice/tests/", "tests/mutants-appservice/"),
    ("examples/operators/src/bin/", "tests/mutants-greeting/"),
    ("crates/evenkeel-sim/tests/simulation/", "tests/mutants-simulation/"),
];

/// The packages that are built by the campaign `simulations`. With their features, its artifacts are
/// used again.
const PACKAGES: &[&str] = &["evenkeel-sim", "appservice", "operators"];

/// What the workspace has in common with this repository.
const LINKS: &[&str] = &["bench", "crates", "examples", "xtask"];

const MANIFEST: &str = "\
[package]
name = \"mutants\"
edition = \"2024\"
version = \"0.1.0\"
publish = false

[dependencies]
evenkeel = { workspace = true, features = [\"v1_36\"] }
evenkeel-sim = { workspace = true }
evenkeel-test = { workspace = true }
bytes = { workspace = true }
futures-util = { workspace = true }
http = { workspace = true }
jiff = { workspace = true }
k8s-openapi = { workspace = true }
kube = { workspace = true }
parking_lot = { workspace = true }
schemars = { workspace = true }
serde = { workspace = true }
serde_json = { workspace = true }
tokio = { workspace = true, features = [\"rt-multi-thread\"] }
tracing = { workspace = true }
";

const LIBRARY: &str = "\
//! The switch of the mutants.

use std::sync::LazyLock;

static ACTIVE: LazyLock<Option<u32>> =
    LazyLock::new(|| std::env::var(\"MUTANT\").ok()?.parse().ok());

/// Whether this mutant is active.
pub fn active(number: u32) -> bool {
    *ACTIVE == Some(number)
}
";

/// The roots of the tests.
const ROOTS: &[(&str, &str)] = &[
    (
        "mutants-appservice",
        "#![allow(warnings)]\nextern crate self as appservice;\nmod dns;\nmod faults;\nmod operator;\n",
    ),
    ("mutants-greeting", "#![allow(warnings)]\nmod greeting;\n"),
    ("mutants-simulation", "#![allow(warnings)]\nmod by_hand;\nmod good;\nmod operators;\n"),
];

/// Functions that are no part of an operator: what only decides about Events, and what simulations
/// expect.
const EXCLUDED: &[&str] = &["drift", "expected", "has_no_other_parts", "is_renewed"];

/// The mutants that do the same as the operator: `file | function | description | reason`.
const EQUIVALENT: &str = include_str!("mutants/equivalent.txt");

/// The environment variable with the number of the active mutant.
const MUTANT: &str = "MUTANT";

/// The budget of a simulation, in seconds.
const DEFAULT_SECONDS: u64 = 20;

/// A simulation that has not ended after its budget and this time has failed.
const GRACE: Duration = Duration::from_secs(120);

/// How many builds leave out what does not compile.
const MAX_BUILDS: usize = 8;

/// The mutants that must be found, of 100 that are not equivalent.
const REQUIRED: usize = 80;

/// Runs the campaign: the budget of each simulation in seconds, and a text that limits it to the
/// mutants whose lines contain it. With no seconds, the mutants are only listed.
///
/// # Errors
/// If the mutants cannot be built, an operator without a change fails, or too few mutants are found.
#[expect(clippy::print_stdout, reason = "a command line tool prints its results")]
pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let (seconds, only) = match arguments {
        [] => (DEFAULT_SECONDS, ""),
        [seconds] => (seconds.parse()?, ""),
        [seconds, only] => (seconds.parse()?, only.as_str()),
        _ => return Err("usage: campaign mutants [seconds] [text]".into()),
    };
    println!("seeds:    1, {seconds} s of T1 for each mutant");
    let begin = Instant::now();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent")?;
    let equivalents = equivalents(EQUIVALENT)?;
    let mut sources = read(root)?;
    if seconds == 0 {
        for (file, mutant) in OPERATORS.iter().flat_map(|operator| mutants(&sources, operator)) {
            println!("{file}:{} {}: {}", mutant.line, mutant.function, mutant.description);
        }
        return Ok(());
    }
    let workspace = root.join("target/mutants");
    generate(root, &workspace)?;
    let executables = build(root, &workspace, &mut sources)?;
    println!("built:    after {:.0?}", begin.elapsed());
    let simulation = Simulation { seconds, scratch: workspace.join("scratch") };
    let mut total = Count::default();
    let (mut counts, mut survivors) = (Vec::new(), Vec::new());
    for operator in OPERATORS {
        let executable = executables.iter().find(|(target, _)| target == operator.target);
        let (_, executable) = executable.ok_or("a test was not built")?;
        let all: Vec<(&str, &Mutant)> = mutants(&sources, operator)
            .filter(|(file, mutant)| line(operator, file, mutant).contains(only))
            .collect();
        if all.is_empty() {
            continue;
        }
        if let Outcome::Killed(why) = simulation.run(operator, executable, None)? {
            return Err(format!("{} fails without a change: {why}", operator.name).into());
        }
        let mut count = Count::default();
        for (file, mutant) in all {
            let line = line(operator, file, mutant);
            let started = Instant::now();
            let reason = equivalents.iter().find(|it| it.is(file, mutant)).map(|it| it.reason);
            let outcome = match reason {
                Some(reason) => Outcome::Equivalent(reason),
                None => simulation.run(operator, executable, Some(mutant.number))?,
            };
            println!("{outcome} {line} ({:.1?})", started.elapsed());
            count.add(&outcome);
            total.add(&outcome);
            if outcome == Outcome::Survived {
                survivors.push(line);
            }
        }
        counts.push((operator.name, count));
    }
    println!("\noperator     mutants killed equivalent survived");
    for (name, count) in counts.iter().chain(&[("all", total)]) {
        println!("{name:12} {count}");
    }
    println!("\nsurvivors:");
    survivors.iter().for_each(|line| println!("{line}"));
    let (killed, semantic) = (total.killed, total.killed + total.survived);
    let result = if killed * 100 >= semantic * REQUIRED { "passed" } else { "FAILED" };
    println!("duration: {} s\nresult:   {result}", begin.elapsed().as_secs());
    match result {
        "passed" => Ok(()),
        _ => Err(format!("{killed} of {semantic} mutants were killed").into()),
    }
}

/// Returns the mutants of an operator, with their files.
fn mutants<'a>(
    sources: &'a [(&'static str, Source)],
    operator: &'a Operator,
) -> impl Iterator<Item = (&'static str, &'a Mutant)> {
    let sources = sources.iter().filter(|(file, _)| operator.files.contains(file));
    sources.flat_map(|(file, source)| source.mutants.iter().map(move |it| (*file, it)))
}

/// Returns the line of a mutant in the output.
fn line(operator: &Operator, file: &str, mutant: &Mutant) -> String {
    let Mutant { number, line, function, description } = mutant;
    format!("{number} {}: {file}:{line} {function}: {description}", operator.name)
}

/// What a simulation has shown about a mutant.
#[derive(PartialEq)]
enum Outcome {
    /// With the oracle.
    Killed(String),
    Survived,
    /// With the reason.
    Equivalent(&'static str),
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Killed(why) => write!(f, "killed by {why}:"),
            Self::Survived => f.write_str("SURVIVED:"),
            Self::Equivalent(_) => f.write_str("equivalent:"),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Count {
    killed: usize,
    survived: usize,
    equivalent: usize,
}

impl Count {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Killed(_) => self.killed += 1,
            Outcome::Survived => self.survived += 1,
            Outcome::Equivalent(_) => self.equivalent += 1,
        }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { killed, survived, equivalent } = self;
        let semantic = killed + survived;
        let share = (killed * 100).checked_div(semantic).unwrap_or(100);
        let all = semantic + equivalent;
        write!(f, "{all:7} {killed:6} {equivalent:10} {survived:8} {share:3} %")
    }
}

/// A line of the list of equivalent mutants.
#[derive(Debug)]
struct Equivalent {
    file: &'static str,
    function: &'static str,
    description: &'static str,
    reason: &'static str,
}

impl Equivalent {
    fn is(&self, file: &str, mutant: &Mutant) -> bool {
        file.ends_with(self.file)
            && mutant.function == self.function
            && mutant.description == self.description
    }
}

fn equivalents(list: &'static str) -> Result<Vec<Equivalent>, String> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |line: &'static str| match *line.split(" | ").collect::<Vec<_>>() {
        [file, function, description, reason] => {
            Ok(Equivalent { file, function, description, reason })
        }
        _ => Err(format!("four parts are needed: {line}")),
    };
    lines.map(parse).collect()
}

/// Returns the files and their mutants.
fn read(root: &Path) -> Result<Vec<(&'static str, Source)>, Box<dyn Error>> {
    let mut sources: Vec<(&str, Source)> = Vec::new();
    let mut first = 1;
    for file in OPERATORS.iter().flat_map(|operator| operator.files) {
        let source = Source::new(&fs::read_to_string(root.join(file))?, EXCLUDED, first)?;
        first += source.mutants.len();
        sources.push((file, source));
    }
    Ok(sources)
}

/// Writes the workspace, except for the sources of the operators.
fn generate(root: &Path, workspace: &Path) -> Result<(), Box<dyn Error>> {
    if workspace.exists() {
        fs::remove_dir_all(workspace)?;
    }
    fs::create_dir_all(workspace.join("mutants/src"))?;
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let manifest = manifest.replacen("members = [", "members = [\"mutants\", ", 1);
    fs::write(workspace.join("Cargo.toml"), manifest)?;
    fs::copy(root.join("Cargo.lock"), workspace.join("Cargo.lock"))?;
    for name in LINKS {
        std::os::unix::fs::symlink(root.join(name), workspace.join(name))?;
    }
    let package = workspace.join("mutants");
    fs::write(package.join("Cargo.toml"), MANIFEST)?;
    fs::write(package.join("src/lib.rs"), LIBRARY)?;
    for (target, root) in ROOTS {
        write(&package.join("tests").join(target).join("main.rs"), root)?;
    }
    for copied in COPIED {
        let path = root.join(copied);
        let mut files = vec![(*copied).to_owned()];
        if path.is_dir() {
            files.clear();
            for entry in fs::read_dir(path)? {
                files.push(format!("{copied}/{}", entry?.file_name().to_string_lossy()));
            }
        }
        for file in files {
            write(&package.join(place(&file)), &fs::read_to_string(root.join(&file))?)?;
        }
    }
    Ok(())
}

/// Returns the place of a file in the package.
fn place(file: &str) -> String {
    let found =
        PLACES.iter().find_map(|(from, to)| Some(format!("{to}{}", file.strip_prefix(from)?)));
    found.unwrap_or_default()
}

/// Writes a file, unless it has this text: then Cargo has nothing to do.
fn write(file: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    Ok(fs::write(file, text)?)
}

/// Builds the tests, without the mutants that do not compile; returns the executables of the targets.
#[expect(clippy::print_stdout, reason = "a command line tool prints its results")]
fn build(
    root: &Path,
    workspace: &Path,
    sources: &mut [(&'static str, Source)],
) -> Result<Vec<(String, PathBuf)>, Box<dyn Error>> {
    let target = root.join("target/mutants-target");
    seed::seed(&root.join("target/release"), &target)?;
    for _ in 0..MAX_BUILDS {
        let mut ranges = Vec::new();
        for (file, source) in &*sources {
            let (text, of_file) = source.render();
            write(&workspace.join("mutants").join(place(file)), &text)?;
            ranges.push(of_file);
        }
        let mut command = cargo();
        command.args(["test", "--release", "--offline", "--no-run", "--message-format=json"]);
        PACKAGES.iter().chain(&["mutants"]).for_each(|package| {
            command.args(["-p", package]);
        });
        ROOTS.iter().for_each(|(target, _)| {
            command.args(["--test", target]);
        });
        command.current_dir(workspace).env("CARGO_TARGET_DIR", &target);
        let output = command.stderr(Stdio::inherit()).output()?;
        let messages = String::from_utf8(output.stdout)?;
        let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let messages: Vec<Value> = messages.collect();
        if output.status.success() {
            return Ok(messages.iter().filter_map(executable).collect());
        }
        let mut dropped = 0;
        for (file, at, text) in messages.iter().filter_map(error) {
            let index = sources.iter().position(|(it, _)| file.ends_with(&place(it)));
            let Some(index) = index else { return Err(text.into()) };
            let Some(number) = innermost(&ranges[index], at) else { return Err(text.into()) };
            let source = &mut sources[index].1;
            if let Some(mutant) = source.mutants.iter().find(|it| it.number == number) {
                let description = &mutant.description;
                println!("does not compile: {}:{} {description}", sources[index].0, mutant.line);
                source.drop_mutant(number);
                dropped += 1;
            }
        }
        if dropped == 0 {
            return Err("the mutants do not compile".into());
        }
    }
    Err("the mutants do not compile".into())
}

/// Returns the number of the innermost edit at a place.
fn innermost(ranges: &[(usize, Range<usize>)], at: usize) -> Option<usize> {
    let around = ranges.iter().filter(|(_, range)| range.contains(&at));
    around.min_by_key(|(_, range)| range.len()).map(|(number, _)| *number)
}

/// Returns the target and the executable of a message of Cargo.
fn executable(message: &Value) -> Option<(String, PathBuf)> {
    let executable = message["executable"].as_str()?;
    Some((message["target"]["name"].as_str()?.to_owned(), executable.into()))
}

/// Returns the file, the offset and the text of an error in a message of Cargo.
fn error(message: &Value) -> Option<(String, usize, String)> {
    let message = &message["message"];
    if message["level"].as_str()? != "error" {
        return None;
    }
    let span = message["spans"].as_array()?.iter().find(|it| it["is_primary"] == true)?;
    let at = usize::try_from(span["byte_start"].as_u64()?).ok()?;
    let text = message["rendered"].as_str().unwrap_or_default();
    Some((span["file_name"].as_str()?.to_owned(), at, text.to_owned()))
}

/// How mutants are simulated.
struct Simulation {
    seconds: u64,
    /// Where plans are stored, instead of in this repository.
    scratch: PathBuf,
}

impl Simulation {
    fn run(
        &self,
        operator: &Operator,
        executable: &Path,
        mutant: Option<usize>,
    ) -> Result<Outcome, Box<dyn Error>> {
        let plans = self.scratch.join("tests/plans");
        if plans.exists() {
            fs::remove_dir_all(&plans)?;
        }
        fs::create_dir_all(&plans)?;
        let file = self.scratch.join("output.txt");
        let output = File::create(&file)?;
        let mut command = std::process::Command::new(executable);
        command.args([operator.test, "--nocapture", "--test-threads=1"]);
        command.env("SIM_TIER", "T1").env("SIM_BUDGET", self.seconds.to_string());
        command.env("CARGO_MANIFEST_DIR", &self.scratch).env_remove(MUTANT);
        if let Some(number) = mutant {
            command.env(MUTANT, number.to_string());
        }
        command.current_dir(&self.scratch).stdout(output.try_clone()?).stderr(output);
        let limit = Duration::from_secs(self.seconds) + GRACE;
        let status = wait(&mut command.spawn()?, limit)?;
        match status {
            None => Ok(Outcome::Killed("a simulation without end".to_owned())),
            Some(status) if status.success() => {
                // A test that does not exist passes.
                match fs::read_to_string(&file)?.contains("1 passed") {
                    true => Ok(Outcome::Survived),
                    false => Err(format!("{} has not run", operator.test).into()),
                }
            }
            Some(_) => Ok(Outcome::Killed(oracle(&plans, operator.name))),
        }
    }
}

/// Returns the oracle in the name of the stored plan, or that the test panicked.
fn oracle(plans: &Path, operator: &str) -> String {
    let files = fs::read_dir(plans).into_iter().flatten().flatten();
    let mut names = files.map(|it| it.file_name().to_string_lossy().into_owned());
    let of_plan = |name: String| {
        let rest = name.strip_prefix(operator)?.strip_prefix('-')?;
        Some(rest.split('-').next()?.to_owned())
    };
    names.find_map(of_plan).unwrap_or_else(|| "a panic".to_owned())
}

/// Waits for a process, or ends it after the time.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>, Box<dyn Error>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn each_equivalent_mutant_exists() {
        let sources = read(root()).unwrap();
        for equivalent in equivalents(EQUIVALENT).unwrap() {
            let mut all = OPERATORS.iter().flat_map(|operator| mutants(&sources, operator));
            let found = all.any(|(file, mutant)| equivalent.is(file, mutant));
            assert!(found, "{equivalent:?}");
        }
    }

    #[test]
    fn rewritten_operators_are_rust_and_keep_their_lines() {
        for (file, source) in read(root()).unwrap() {
            let (text, ranges) = source.render();
            if let Err(error) = syn::parse_file(&text) {
                let line = text.lines().nth(error.span().start().line - 1).unwrap_or_default();
                panic!("{file}: {error}: {line}");
            }
            let lines = fs::read_to_string(root().join(file)).unwrap().lines().count();
            assert_eq!(text.lines().count(), lines, "{file}");
            assert!(source.mutants.len() > 5 && ranges.len() >= source.mutants.len(), "{file}");
            assert!(!place(file).is_empty(), "{file}");
        }
    }

    #[test]
    fn oracle_is_read_from_the_name_of_a_plan() {
        let directory = std::env::temp_dir().join(format!("plans-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        assert_eq!(oracle(&directory, "web"), "a panic");
        fs::write(directory.join("web-convergence-12345678.json"), "").unwrap();
        assert_eq!(oracle(&directory, "web"), "convergence");
        fs::remove_dir_all(&directory).unwrap();
    }
}
