//! Benchmarks of the API server (start, create, list, watch fan-out, stop) and of the runtime.
//!
//! Each scenario measures Evenkeel and, if a rival is given, the rival with the same client. For
//! scenarios over TLS the server runs in a separate process, as the rival does.

mod client;

mod figure;

mod go;

mod load;

mod probe;

mod scenario;

mod server;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use tokio::runtime::{self, Runtime};

use self::client::Endpoint;
use self::figure::Report;
use self::scenario::cache::{Objects, Side};
use self::scenario::converge::Operator;

/// Runs benchmarks of the API server and the runtime.
#[derive(Debug, Parser)]
#[command(name = "evenkeel-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Scenarios to run.
    #[arg(value_enum, default_value = "all")]
    scenarios: Vec<Scenario>,

    /// URL of an API server to compare with, such as https://127.0.0.1:6443.
    #[arg(long, requires = "token")]
    rival: Option<String>,

    /// Bearer token of an admin user of the rival.
    #[arg(long)]
    token: Option<String>,
}

/// Subcommands that run as child processes of a benchmark.
#[derive(Debug, Subcommand)]
enum Command {
    /// Serves on a free port, prints the URL, and runs until stdin is closed.
    #[command(hide = true)]
    Serve,
    /// Serves, sends itself one request, and prints the duration in microseconds.
    #[command(hide = true)]
    FirstResponse,
    /// Fills a server in this process, syncs a cache from it, and prints the cost.
    #[command(hide = true)]
    Sync { side: Side, objects: Objects },
    /// Runs an operator until every object is in its final state, and prints what that took.
    #[command(hide = true)]
    ConvergeOperator { operator: Operator, url: String, workers: u16 },
    /// Syncs all pods into a cache, lists them, and prints the cost.
    #[command(hide = true)]
    ListAll { side: Side, url: String },
    /// Fills a workqueue and prints its memory.
    #[command(hide = true)]
    QueueMemory,
    /// Keeps a CPU busy.
    #[command(hide = true)]
    Spin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenario {
    All,
    Start,
    Servers,
    Create,
    CreateDurable,
    CreateTls,
    Authorized,
    Webhook,
    Review,
    ListTls,
    ListPods,
    Fanout,
    Memory,
    Stop,
    Apply,
    Cel,
    Queue,
    Cache,
    List,
    Restart,
    Converge,
    ConvergeBusy,
    Idle,
    Overhead,
    Scrape,
    AttackHeavy,
    AttackBodies,
    AttackConnections,
    AttackLists,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Command::Serve) => return threads()?.block_on(server::serve()),
        Some(Command::FirstResponse) => return server::first_response(),
        Some(Command::Sync { side, objects }) => {
            return one_thread()?.block_on(scenario::cache::child(side, objects));
        }
        Some(Command::ConvergeOperator { operator, url, workers }) => {
            return threads()?.block_on(scenario::converge::child(operator, &url, workers));
        }
        Some(Command::ListAll { side, url }) => {
            return one_thread()?.block_on(scenario::list::child(side, &url));
        }
        Some(Command::QueueMemory) => {
            // The queue records when a key was added, which needs tokio's clock.
            let runtime = one_thread()?;
            let _entered = runtime.enter();
            return scenario::queue::child();
        }
        Some(Command::Spin) => {
            scenario::converge::spin();
            return Ok(());
        }
        None => {}
    }
    let rival = match (&arguments.rival, arguments.token) {
        (Some(url), Some(token)) => {
            Some(Endpoint::parse(url, token).with_context(|| format!("invalid --rival {url:?}"))?)
        }
        _ => None,
    };
    let wanted = |one: Scenario| {
        arguments.scenarios.iter().any(|scenario| [one, Scenario::All].contains(scenario))
    };

    let report = &mut Report;
    report.head();
    if wanted(Scenario::Start) {
        scenario::lifecycle::start(report)?;
    }
    if wanted(Scenario::Servers) {
        one_thread()?.block_on(scenario::lifecycle::servers(report))?;
    }
    if wanted(Scenario::Create) {
        one_thread()?.block_on(scenario::create::in_process(report))?;
    }
    if wanted(Scenario::CreateDurable) {
        threads()?.block_on(scenario::create::durable(report))?;
    }
    if wanted(Scenario::CreateTls) {
        threads()?.block_on(scenario::create::over_tls(report, rival.as_ref()))?;
    }
    if wanted(Scenario::Authorized) {
        one_thread()?.block_on(scenario::authorized::authorized(report))?;
    }
    if wanted(Scenario::Webhook) {
        one_thread()?.block_on(scenario::webhook::webhook(report))?;
    }
    if wanted(Scenario::Review) {
        threads()?.block_on(scenario::review::review(report))?;
    }
    if wanted(Scenario::ListTls) {
        threads()?.block_on(scenario::read::list(report, rival.as_ref()))?;
    }
    if wanted(Scenario::ListPods) {
        one_thread()?.block_on(scenario::read::list_pods(report))?;
    }
    if wanted(Scenario::Fanout) {
        one_thread()?.block_on(scenario::read::fan_out(report))?;
    }
    if wanted(Scenario::Memory) {
        threads()?.block_on(scenario::memory::memory(report))?;
    }
    if wanted(Scenario::Stop) {
        threads()?.block_on(scenario::lifecycle::stop(report))?;
    }
    if wanted(Scenario::Apply) {
        scenario::apply::apply(report)?;
    }
    if wanted(Scenario::Cel) {
        scenario::cel::cel(report)?;
    }
    if wanted(Scenario::Queue) {
        one_thread()?.block_on(scenario::queue::queue(report))?;
    }
    if wanted(Scenario::Cache) {
        scenario::cache::cache(report)?;
    }
    if wanted(Scenario::List) {
        threads()?.block_on(scenario::list::list(report))?;
    }
    if wanted(Scenario::Restart) {
        threads()?.block_on(scenario::operator::restart(report))?;
    }
    if wanted(Scenario::Converge) {
        threads()?.block_on(scenario::converge::converge(report))?;
    }
    if wanted(Scenario::ConvergeBusy) {
        threads()?.block_on(scenario::converge::busy(report))?;
    }
    if wanted(Scenario::Idle) {
        threads()?.block_on(scenario::operator::idle(report))?;
    }
    if wanted(Scenario::Overhead) {
        one_thread()?.block_on(scenario::observe::overhead(report))?;
    }
    if wanted(Scenario::Scrape) {
        one_thread()?.block_on(scenario::observe::scrape(report))?;
    }
    if wanted(Scenario::AttackHeavy) {
        threads()?.block_on(scenario::attack::heavy(report))?;
    }
    if wanted(Scenario::AttackBodies) {
        threads()?.block_on(scenario::attack::bodies(report))?;
    }
    if wanted(Scenario::AttackConnections) {
        threads()?.block_on(scenario::attack::connections(report))?;
    }
    if wanted(Scenario::AttackLists) {
        threads()?.block_on(scenario::attack::lists(report))?;
    }
    Ok(())
}

fn threads() -> std::io::Result<Runtime> {
    runtime::Builder::new_multi_thread().enable_all().build()
}

fn one_thread() -> std::io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}
