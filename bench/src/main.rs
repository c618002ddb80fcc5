//! Load on a whole API server: how fast it starts, writes, lists, tells watchers and stops. Beside
//! it, load on the parts of the runtime.
//!
//! Each scenario measures Evenkeel and, where a rival is given, the rival with the same client.
//! Whatever goes over TLS is served by a process of its own, as the rival is.

mod client;

mod figure;

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

/// Measures the API server.
#[derive(Debug, Parser)]
#[command(name = "evenkeel-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// What to measure.
    #[arg(value_enum, default_value = "all")]
    scenarios: Vec<Scenario>,

    /// An API server to compare with, such as https://127.0.0.1:6443.
    #[arg(long, requires = "token")]
    rival: Option<String>,

    /// The bearer token for the rival; it has to be an administrator's.
    #[arg(long)]
    token: Option<String>,
}

/// What the program does as a process that another one of it measures.
#[derive(Debug, Subcommand)]
enum Command {
    /// Serves on a free port, says where, and goes on until its input ends.
    #[command(hide = true)]
    Serve,
    /// Serves, asks itself one question, and says how many microseconds that took.
    #[command(hide = true)]
    FirstAnswer,
    /// Fills a server in this process, reads it into a cache, and says what that took.
    #[command(hide = true)]
    Sync { side: Side, objects: Objects },
    /// Runs an operator that has nothing to do.
    #[command(hide = true)]
    Operator { url: String },
    /// Runs an operator until every object is in its final state, and prints what that took.
    #[command(hide = true)]
    ConvergeOperator { side: Side, url: String, workers: u16 },
    /// Reads all pods into a cache, lists them, and prints what that took.
    #[command(hide = true)]
    ListAll { side: Side, url: String },
    /// Fills a queue, and prints what it weighs.
    #[command(hide = true)]
    QueueMemory,
    /// Keeps a processor busy.
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
    ListTls,
    ListPods,
    Fanout,
    Memory,
    Stop,
    Apply,
    Queue,
    Cache,
    List,
    Restart,
    Converge,
    ConvergeBusy,
    Idle,
    AttackHeavy,
    AttackBodies,
    AttackConnections,
    AttackLists,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Command::Serve) => return threads()?.block_on(server::serve()),
        Some(Command::FirstAnswer) => return server::first_answer(),
        Some(Command::Sync { side, objects }) => {
            return one_thread()?.block_on(scenario::cache::child(side, objects));
        }
        Some(Command::Operator { url }) => {
            return threads()?.block_on(scenario::operator::child(&url));
        }
        Some(Command::ConvergeOperator { side, url, workers }) => {
            return threads()?.block_on(scenario::converge::child(side, &url, workers));
        }
        Some(Command::ListAll { side, url }) => {
            return one_thread()?.block_on(scenario::list::child(side, &url));
        }
        Some(Command::QueueMemory) => {
            // A queue knows when a key came, and for that it needs a clock.
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
            Some(Endpoint::parse(url, token).with_context(|| format!("bad --rival {url:?}"))?)
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
