//! `evenkeel-differ`: runs sequences on both servers and counts the differences.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use evenkeel_apiserver::ApiServer;
use evenkeel_differ::coverage::Coverage;
use evenkeel_differ::generate::{self, Theme, shared};
use evenkeel_differ::transcript::Transcript;
use evenkeel_differ::{
    Difference, Finding, KnownDifferences, Pair, RunError, Sequence, Server, WebhookServer,
    render_report, shrink,
};
use evenkeel_upstream::{Cluster, UpstreamOptions, locate};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Sends the same requests to kube-apiserver and to Evenkeel's server and compares the responses
#[derive(Parser)]
#[command(name = "evenkeel-differ", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start both servers, run the area files and seeded sequences, and count differences
    Run(Run),
    /// Run sequences by name (`crud`, `seed-1-17`) or file, and print every difference
    Replay(Replay),
    /// Print a generated sequence as YAML
    Generate {
        /// Name of the sequence, such as seed-1-17
        name: String,
    },
    /// Record kube-apiserver's responses to the area files and some generated sequences
    Record(Record),
}

#[derive(Args)]
struct Run {
    /// Number of generated sequences
    #[arg(long, default_value_t = 1000)]
    sequences: u64,
    /// Seed of the generated sequences
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first generated sequence
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Maximum number of concurrent sequences
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Maximum number of difference classes to shrink and print
    #[arg(long, default_value_t = 10)]
    show: usize,
    /// Generate only sequences of this theme, such as definitions
    #[arg(long, value_parser = parse_theme)]
    theme: Option<Theme>,
    /// Skip the area files and the check that every known difference occurs
    #[arg(long)]
    generated_only: bool,
    /// Directory for sequences with an unexplained difference
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

#[derive(Args)]
struct Replay {
    /// Names or files of sequences
    #[arg(required = true)]
    names: Vec<String>,
    /// Shrink to the shortest sequence that reproduces the difference
    #[arg(long)]
    shrink: bool,
}

#[derive(Args)]
struct Record {
    /// Seed of the generated sequences
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of mixed sequences
    #[arg(long, default_value_t = 20)]
    generated: u64,
    /// Number of sequences of each other theme
    #[arg(long, default_value_t = 2)]
    themed: u64,
    /// Record only this sequence
    #[arg(long)]
    only: Option<String>,
    /// Write nothing; fail if kube-apiserver responds differently than recorded
    #[arg(long)]
    check: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(options) => run(options).await,
        Command::Replay(options) => replay(options).await,
        Command::Generate { name } => match load_sequence(&name) {
            Ok(sequence) => {
                print_line(sequence.render().trim_end());
                Ok(true)
            }
            Err(error) => Err(error),
        },
        Command::Record(options) => record(options).await,
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print_line(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn parse_theme(name: &str) -> Result<Theme, String> {
    let known = Theme::ALL.into_iter().find(|theme| theme.name() == name);
    known.ok_or_else(|| format!("one of {}", Theme::ALL.map(Theme::name).join(", ")))
}

async fn start_upstream() -> anyhow::Result<Server> {
    let binaries = locate().context("no kube-apiserver to compare with")?;
    let mut options = UpstreamOptions::default();
    // The Services of thousands of sequences need this many addresses.
    "10.0.0.0/16".clone_into(&mut options.service_cluster_ip_range);
    // Sequences compact the storage themselves; how long they take must not have an effect.
    options.apiserver_flags.push("--etcd-compaction-interval=0".to_owned());
    let server = Server::real(Cluster::start(&binaries, &options).await?).await?;
    shared::create(&server).await?;
    Ok(server)
}

async fn start_pair(prefix: &str) -> anyhow::Result<Arc<Pair>> {
    let upstream = start_upstream().await?;
    let ours = ApiServer::builder().rbac().compaction_interval(Duration::ZERO).build().await?;
    let ours = Server::ours(ours);
    shared::create(&ours).await?;
    let webhooks = WebhookServer::start(now_unix()).await?;
    Ok(Arc::new(Pair::new(upstream, ours, prefix).with_webhooks(webhooks)))
}

fn now_unix() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "kube-apiserver uses the wall clock, too")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}

async fn run(options: Run) -> anyhow::Result<bool> {
    let known = Arc::new(KnownDifferences::built_in()?);
    let pair = start_pair(&format!("s{}", options.seed)).await?;
    let mut sequences = Vec::new();
    if !options.generated_only {
        sequences.extend(Sequence::load_folder(&folder("sequences"))?);
    }
    let areas = sequences.len();
    let numbers = options.from..options.from + options.sequences;
    sequences.extend(numbers.map(|number| match options.theme {
        Some(theme) => generate::themed(theme, options.seed, number),
        None => generate::sequence(options.seed, number),
    }));

    let begin = Instant::now();
    let mut summary = Summary::default();
    let (compacting, sequences): (Vec<_>, Vec<_>) =
        sequences.into_iter().partition(Sequence::compacts);
    let permits = Arc::new(Semaphore::new(options.concurrency));
    let mut tasks = JoinSet::new();
    let mut unconfirmed = Vec::new();
    for sequence in sequences {
        let permit = permits.clone().acquire_owned().await?;
        let (pair, known) = (pair.clone(), known.clone());
        tasks.spawn(async move {
            let finding = pair.compare(&sequence, &known).await;
            drop(permit);
            (sequence, finding)
        });
        while let Some(done) = tasks.try_join_next() {
            let (sequence, finding) = done?;
            unconfirmed.extend(summary.add_unless_different(sequence, finding));
        }
    }
    while let Some(done) = tasks.join_next().await {
        let (sequence, finding) = done?;
        unconfirmed.extend(summary.add_unless_different(sequence, finding));
    }
    // One at a time: differences that only a busy server has are not reproduced.
    for (sequence, first) in unconfirmed {
        let outcome = Outcome::confirmed(&sequence, &first, pair.confirm(&sequence, &known).await);
        summary.add(&sequence, outcome);
    }
    // Compaction affects every client, so these sequences run after all others.
    for some in compacting.chunks(options.concurrency) {
        for (sequence, outcome) in confirm_together(&pair, &known, some).await {
            summary.add(&sequence, outcome);
        }
    }
    let took = begin.elapsed();
    summary.print(&pair, &known, &options).await?;
    print_line(&summary.coverage.render());
    let mut success = summary.unexplained == 0 && summary.broken.is_empty();
    for flaky in &summary.flaky {
        print_line(&format!("not reproducible: {flaky}"));
    }
    for difference in &summary.not_compared {
        print_line(&format!("not compared: {difference}"));
    }
    for broken in &summary.broken {
        print_line(&format!("failed: {broken}"));
    }
    if !options.generated_only {
        for row in known.unused() {
            print_line(&format!("DIFFERENCES.md: row no longer matches: {row}"));
            success = false;
        }
    }
    print_line(&format!(
        "{} sequences ({areas} area files) and {} steps in {:.1} s: {} differences explained, {} \
         unexplained in {} sequences, {} not reproducible",
        summary.sequences,
        summary.steps,
        took.as_secs_f64(),
        summary.explained,
        summary.unexplained,
        summary.differing.len(),
        summary.flaky.len(),
    ));
    Ok(success)
}

/// The result of one sequence.
enum Outcome {
    Same(Finding),
    Different(Finding),
    /// A difference that did not occur on the second run.
    Flaky(Finding, String),
    Broken(String),
}

impl Outcome {
    fn broken(sequence: &Sequence, error: &RunError) -> Self {
        let first: &dyn std::error::Error = error;
        let causes = std::iter::successors(Some(first), |error| error.source());
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        Self::Broken(format!("{}: {}", sequence.name, causes.join(": ")))
    }

    /// Returns the outcome of a sequence that differed and was run again. Timing of watches and
    /// clocks can cause a difference, so it must occur twice.
    fn confirmed(sequence: &Sequence, first: &Finding, again: Result<Finding, RunError>) -> Self {
        match again {
            Err(error) => Self::broken(sequence, &error),
            Ok(again) if again.unexplained.is_empty() => {
                let what = first.unexplained.first();
                let what = what.map_or_else(String::new, |what| describe(sequence, what));
                Self::Flaky(again, what)
            }
            Ok(again) => Self::Different(again),
        }
    }
}

/// Runs sequences that compact together, and those that differ a second time.
async fn confirm_together(
    pair: &Pair,
    known: &KnownDifferences,
    sequences: &[Sequence],
) -> Vec<(Arc<Sequence>, Outcome)> {
    let all: Vec<_> = sequences.iter().cloned().map(Arc::new).collect();
    let first = pair.compare_together(&all, known, false).await;
    let mut done = Vec::new();
    let mut unconfirmed = Vec::new();
    for (sequence, finding) in all.into_iter().zip(first) {
        match finding {
            Err(error) => {
                let broken = Outcome::broken(&sequence, &error);
                done.push((sequence, broken));
            }
            Ok(finding) if finding.unexplained.is_empty() => {
                done.push((sequence, Outcome::Same(finding)));
            }
            Ok(finding) => unconfirmed.push((sequence, finding)),
        }
    }
    if unconfirmed.is_empty() {
        return done;
    }
    let again: Vec<_> = unconfirmed.iter().map(|(sequence, _)| sequence.clone()).collect();
    let second = pair.compare_together(&again, known, true).await;
    for ((sequence, first), finding) in unconfirmed.into_iter().zip(second) {
        let outcome = Outcome::confirmed(&sequence, &first, finding);
        done.push((sequence, outcome));
    }
    done
}

fn describe(sequence: &Sequence, difference: &Difference) -> String {
    let value = |value: &Option<serde_json::Value>| match value {
        Some(value) => value.to_string().chars().take(200).collect(),
        None => "nothing".to_owned(),
    };
    format!(
        "{} step {} at {}: upstream {}, ours {}",
        sequence.name,
        difference.step + 1,
        difference.at,
        value(&difference.upstream),
        value(&difference.ours)
    )
}

#[derive(Default)]
struct Summary {
    sequences: usize,
    steps: usize,
    explained: usize,
    unexplained: usize,
    flaky: Vec<String>,
    not_compared: Vec<String>,
    broken: Vec<String>,
    differing: Vec<(Sequence, Finding)>,
    coverage: Coverage,
}

impl Summary {
    /// Adds a sequence, or returns it if there is a difference to confirm.
    fn add_unless_different(
        &mut self,
        sequence: Sequence,
        result: Result<Finding, RunError>,
    ) -> Option<(Sequence, Finding)> {
        let outcome = match result {
            Ok(first) if !first.unexplained.is_empty() => return Some((sequence, first)),
            Ok(finding) => Outcome::Same(finding),
            Err(error) => Outcome::broken(&sequence, &error),
        };
        self.add(&sequence, outcome);
        None
    }

    fn add(&mut self, sequence: &Sequence, outcome: Outcome) {
        self.sequences += 1;
        self.steps += sequence.steps.len();
        let finding = match outcome {
            Outcome::Broken(why) => {
                self.broken.push(why);
                return;
            }
            Outcome::Same(finding) => finding,
            Outcome::Flaky(finding, what) => {
                self.flaky.push(what);
                finding
            }
            Outcome::Different(finding) => {
                self.unexplained += finding.unexplained.len();
                self.differing.push((sequence.clone(), finding.clone()));
                finding
            }
        };
        self.explained += finding.explained;
        let not_compared = finding.not_compared.iter();
        self.not_compared.extend(not_compared.map(|difference| describe(sequence, difference)));
        self.coverage.count(sequence, &finding.upstream);
    }

    /// Prints the first difference of each sequence, grouped by class, most frequent first.
    async fn print(
        &self,
        pair: &Pair,
        known: &KnownDifferences,
        options: &Run,
    ) -> anyhow::Result<()> {
        let mut classes: BTreeMap<String, Vec<&(Sequence, Finding)>> = BTreeMap::new();
        for entry in &self.differing {
            let (sequence, finding) = entry;
            let Some(first) = finding.unexplained.first() else { continue };
            let step = &sequence.steps[first.step];
            let what = if step.read.is_some() { "a watch read" } else { step.call.as_str() };
            let (what, _) = what.split_once('?').unwrap_or((what, ""));
            let class = format!("{} of {}", first.class(), without_name(what));
            classes.entry(class).or_default().push(entry);
            if let Some(folder) = &options.save {
                std::fs::create_dir_all(folder)?;
                let path = folder.join(format!("{}.yaml", sequence.name));
                std::fs::write(path, sequence.render())?;
            }
        }
        let mut classes: Vec<_> = classes.into_iter().collect();
        classes.sort_by_key(|(_, entries)| std::cmp::Reverse(entries.len()));
        for (at, (class, entries)) in classes.iter().enumerate() {
            let (sequence, finding) = entries[0];
            print_line(&format!(
                "\n{} sequences differ in {class}; first: {}",
                entries.len(),
                sequence.name
            ));
            if at < options.show
                && let Some(first) = finding.unexplained.first()
            {
                let short = shrink(pair, known, sequence, first).await;
                let again = pair.compare(&short, known).await?;
                print_line(&match again.unexplained.is_empty() {
                    true => render_report(sequence, finding),
                    false => render_report(&short, &again),
                });
            }
        }
        Ok(())
    }
}

/// Replaces object names, so that requests for different objects have the same class.
fn without_name(call: &str) -> String {
    let parts = call.split('/').map(|part| match part.trim_start_matches("${ns}-") {
        "a" | "b" | "c" | "d" => "*",
        _ => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

async fn replay(options: Replay) -> anyhow::Result<bool> {
    let known = KnownDifferences::built_in()?;
    let sequences: Vec<_> =
        options.names.iter().map(|n| load_sequence(n)).collect::<Result<_, _>>()?;
    let pair = start_pair("r").await?;
    let mut success = true;
    for sequence in sequences {
        let finding = pair.compare(&sequence, &known).await?;
        let count = finding.unexplained.len();
        print_line(&format!(
            "{}: {count} unexplained, {} explained",
            sequence.name, finding.explained
        ));
        let Some(first) = finding.unexplained.first() else { continue };
        success = false;
        if options.shrink {
            let short = shrink(&pair, &known, &sequence, first).await;
            let finding = pair.compare(&short, &known).await?;
            print_line(&render_report(&short, &finding));
            continue;
        }
        for difference in &finding.unexplained {
            let value = |value: Option<&serde_json::Value>| {
                value.map_or_else(|| "nothing".to_owned(), ToString::to_string)
            };
            print_line(&format!(
                "  step {} {} at {}:\n    upstream {}\n    ours     {}",
                difference.step + 1,
                sequence.steps[difference.step].call,
                difference.at,
                value(difference.upstream.as_ref()),
                value(difference.ours.as_ref()),
            ));
        }
    }
    Ok(success)
}

async fn record(options: Record) -> anyhow::Result<bool> {
    let mut sequences = match &options.only {
        Some(name) => vec![load_sequence(name)?],
        None => Sequence::load_folder(&folder("sequences"))?,
    };
    if options.only.is_none() {
        for theme in Theme::ALL {
            let count = if theme == Theme::Mixed { options.generated } else { options.themed };
            sequences.extend((0..count).map(|n| generate::themed(theme, options.seed, n)));
        }
    }
    sequences.retain(|sequence| !sequence.live);
    let server = start_upstream().await?;
    let target = folder("transcripts");
    std::fs::create_dir_all(&target)?;
    let mut changed = 0;
    for mut transcript in transcripts(&server, sequences.clone()).await? {
        let path = target.join(format!("{}.jsonl", transcript.sequence.name));
        let old = std::fs::read_to_string(&path).ok().and_then(|old| Transcript::parse(&old).ok());
        let is_same = |new: &Transcript| old.as_ref().is_some_and(|old| new.is_equivalent(old));
        if options.check && !is_same(&transcript) && old.is_some() {
            // kube-apiserver serves a changed CRD later when it is busy, so it is recorded alone.
            transcript = Transcript::record(&server, &transcript.sequence).await?;
        }
        let same = is_same(&transcript);
        let sequence = &transcript.sequence;
        changed += usize::from(!same);
        if !same {
            print_line(&format!("{} ({} steps) has changed", sequence.name, sequence.steps.len()));
        }
        if !same && !options.check {
            std::fs::write(path, transcript.render())?;
        }
    }
    print_line(&format!("{} transcripts, {changed} changed", sequences.len()));
    Ok(changed == 0 || !options.check)
}

/// Records sequences concurrently, except those that compact, which run after the others.
async fn transcripts(server: &Server, all: Vec<Sequence>) -> anyhow::Result<Vec<Transcript>> {
    let (compacting, others): (Vec<_>, Vec<_>) = all.into_iter().partition(Sequence::compacts);
    let mut tasks = JoinSet::new();
    for sequence in others {
        let server = server.clone();
        tasks.spawn(async move { Transcript::record(&server, &sequence).await });
    }
    let mut done = Vec::new();
    while let Some(transcript) = tasks.join_next().await {
        done.push(transcript??);
    }
    for sequence in compacting {
        done.push(Transcript::record(server, &sequence).await?);
    }
    Ok(done)
}

fn load_sequence(name: &str) -> anyhow::Result<Sequence> {
    if let Some(generated) = generate::by_name(name) {
        return Ok(generated);
    }
    let path = Path::new(name);
    if path.is_file() {
        return Ok(Sequence::load(path)?);
    }
    Ok(Sequence::load(&folder("sequences").join(format!("{name}.yaml")))?)
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Prints a line to stdout.
fn print_line(line: &str) {
    // A closed pipe is not an error.
    let _ = writeln!(std::io::stdout(), "{line}");
}
