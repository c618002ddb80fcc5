//! `cargo run -p appservice`: a cluster, the operator on it, and a story that shows what it does.

mod output;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use appservice::dns::Zone;
use appservice::operator::{AppService, AppServices};
use appservice::scenario::{self, Line, Stage};
use clap::Parser;
use evenkeel::Manager;
use evenkeel_cluster::Cluster;
use tokio::task::JoinSet;

use output::{say, tell};

/// An example operator: an AppService becomes a Deployment, a Service and a DNS record.
///
/// Without options it starts a cluster in this process, plays a story on it step by step, and stays
/// up for you to try your own hand. It touches no other cluster unless told to by --kubeconfig or
/// --context.
#[derive(Debug, Parser)]
#[command(version, about, after_help = AFTER)]
struct Arguments {
    /// End after the story; the exit code tells whether every step was seen
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    once: bool,
    /// Run on the cluster that this file names, instead of one in this process; no story is played
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Run on the cluster of this context of the kubeconfig; no story is played
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Install or update the AppService CRD first; on a real cluster only if asked for
    #[arg(long)]
    install: bool,
    /// The folder that stands for a DNS zone, one file per record
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
    /// Log everything, also what the cluster's own controllers do
    #[arg(short, long)]
    verbose: bool,
}

const AFTER: &str = "\
Examples:
  cargo run -p appservice                                  the story, then yours
  cargo run -p appservice -- --once                        the story alone
  cargo run -p appservice -- --context kind-kind --install  the operator on a cluster of yours";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let elsewhere = arguments.kubeconfig.is_some() || arguments.context.is_some();
    if let Err(problem) = output::log(arguments.verbose, elsewhere) {
        output::error(&explained(&problem));
        return ExitCode::from(2);
    }
    let run =
        async { if elsewhere { elsewhere_run(&arguments).await } else { here(&arguments).await } };
    let ended = tokio::select! {
        biased;
        ended = run => ended,
        // As `| head -1` does.
        () = output::closed() => return ExitCode::SUCCESS,
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            output::error(&explained(&error));
            ExitCode::from(2)
        }
    }
}

/// The error and what caused it; many repeat the words of their cause in their own.
fn explained(error: &anyhow::Error) -> String {
    let causes = error.chain().skip(1).map(ToString::to_string);
    causes.fold(error.to_string(), |text, cause| match text.contains(&cause) {
        true => text,
        false => format!("{text}: {cause}"),
    })
}

/// The operator alone, on a cluster that exists.
async fn elsewhere_run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let manager = Manager::builder("appservice-operator")
        .kubeconfig(arguments.kubeconfig.clone())
        .context(arguments.context.clone())
        .connect()
        .await?;
    if arguments.install {
        manager.client().install_crd::<AppService>().await?;
        say("The AppService CRD is installed.");
    }
    let folder = arguments.records.clone().unwrap_or_else(|| "dns-records".into());
    let zone = Zone::new(&folder).with_context(|| format!("cannot use {}", folder.display()))?;
    AppServices { zone }.register(&manager)?;
    manager.run().await?;
    Ok(ExitCode::SUCCESS)
}

/// A cluster in this process, the operator and the story.
async fn here(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let scratch = Scratch::new().context("no folder for the kubeconfig")?;
    let folder = arguments.records.clone().unwrap_or_else(|| scratch.0.join("dns"));
    let zone = Zone::new(&folder).with_context(|| format!("cannot use {}", folder.display()))?;

    let cluster = Cluster::start().await.context("cannot start the cluster")?;
    let serving = cluster.serve(([127, 0, 0, 1], 0).into()).await.context("cannot listen")?;
    let kubeconfig = scratch.0.join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).context("cannot write the kubeconfig")?;
    say(&format!("A Kubernetes 1.36 API is ready at {}; pods are simulated.", serving.url()));
    if !arguments.once {
        say(&format!("\n  export KUBECONFIG={}", kubeconfig.display()));
    }

    let manager = Manager::builder("appservice-operator").build(cluster.client());
    manager.client().install_crd::<AppService>().await?;
    let controller = AppServices { zone: zone.clone() }.register(&manager)?;
    let mut running = JoinSet::new();
    running.spawn(manager.clone().run());

    let client = Manager::builder("story").build(cluster.client()).client().clone();
    let namespace = "default".to_owned();
    let stage = Stage { client, namespace, zone, controllers: true, kubelets: true };
    let mut summary = Summary::default();
    let mut show = |line: Line| {
        summary.count(&line);
        tell(line);
    };
    let told = tokio::select! {
        biased;
        told = scenario::play(&stage, &mut show) => told,
        // Ctrl-C, or trouble.
        Some(ended) = running.join_next() => {
            ended??;
            say("\nStopped before the end of the story.");
            return Ok(ExitCode::FAILURE);
        }
    };
    stage.client.cache().stop().await;
    let code = match told {
        Ok(()) => {
            say(&format!("\nAll of it happened: {summary}."));
            ExitCode::SUCCESS
        }
        Err(unseen) => {
            output::error(&format!("after {summary}: {unseen}"));
            ExitCode::FAILURE
        }
    };
    if arguments.once {
        manager.stop();
    } else {
        invite(&folder);
    }
    let mut records = controller.journal().follow();
    loop {
        tokio::select! {
            biased;
            Ok(record) = records.recv(), if !arguments.once => say(&record.to_string()),
            ended = running.join_next() => {
                ended.transpose()?.transpose()?;
                break;
            }
        }
    }
    if !arguments.once {
        say("\nStopping.");
    }
    serving.stop().await;
    cluster.stop().await;
    if !arguments.once {
        say("Stopped; the cluster and its objects are gone.");
    }
    Ok(code)
}

/// What the story has shown so far.
#[derive(Default)]
struct Summary {
    steps: usize,
    seen: usize,
    skipped: usize,
}

impl Summary {
    fn count(&mut self, line: &Line) {
        match line {
            Line::Did(_) => self.steps += 1,
            Line::Saw(..) => self.seen += 1,
            Line::Skipped(_) => self.skipped += 1,
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} steps, {} results seen", self.steps, self.seen)?;
        if self.skipped > 0 { write!(f, ", {} skipped", self.skipped) } else { Ok(()) }
    }
}

fn invite(folder: &Path) {
    say("\nNow you. With the KUBECONFIG above, in another terminal:\n");
    say("  kubectl apply -f examples/appservice/web.yaml");
    say("  kubectl get appservices,deployments,pods");
    say("  kubectl set image deployment/web app=something:else");
    say("  kubectl delete appservice web\n");
    say(&format!("DNS records are files in {}", folder.display()));
    say("Each reconcile is printed below with its cause. Press Ctrl-C to stop.\n");
}

/// A folder that is gone when the program is.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("appservice-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is the system's to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
