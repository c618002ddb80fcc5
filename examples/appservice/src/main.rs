//! `cargo run -p appservice`: runs a cluster, the operator, and a scenario that demonstrates it.

mod output;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use appservice::dns::Zone;
use appservice::operator::{AppService, AppServices};
use appservice::scenario::{self, Environment, Progress};
use clap::Parser;
use evenkeel::Manager;
use evenkeel::leader::LeaderElection;
use evenkeel::manager::BindAddress;
use evenkeel::webhook::WebhookOptions;
use evenkeel_cluster::Cluster;
use tokio::task::JoinSet;

use output::{print_line, print_progress};

/// An example operator: an AppService becomes a Deployment, a Service and a DNS record.
///
/// Without options it starts a cluster in this process, runs a scenario on it step by step, and
/// keeps running until Ctrl-C. It uses another cluster only with --kubeconfig or --context.
#[derive(Debug, Parser)]
#[command(version, about, after_help = AFTER)]
struct Arguments {
    /// Exit after the scenario, with exit code 0 if every step succeeded
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    once: bool,
    /// Run on the cluster of this kubeconfig instead, without the scenario
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Run on the cluster of this kubeconfig context instead, without the scenario
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Elect one of several replicas, which runs the operator (not on the cluster in this process)
    #[arg(long)]
    leader_elect: bool,
    /// Install or update the AppService CRD (always done on the cluster in this process)
    #[arg(long)]
    install: bool,
    /// Serve the webhooks, in a pod of the cluster (always done on the cluster in this process)
    #[arg(long)]
    webhooks: bool,
    /// Serve /metrics at this address, as in :8443 or 127.0.0.1:8080 (0: not at all)
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    metrics_bind_address: BindAddress,
    /// Serve /healthz and /readyz at this address (0: not at all)
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    health_probe_bind_address: BindAddress,
    /// Directory of the fake DNS zone, one file per record
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
    /// Log at level debug, including the built-in controllers
    #[arg(short, long)]
    verbose: bool,
}

const AFTER: &str = "\
Examples:
  cargo run -p appservice                                   run the scenario, then keep running
  cargo run -p appservice -- --once                         run the scenario and exit
  cargo run -p appservice -- --context kind-kind --install  run the operator on your cluster";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let existing_cluster = arguments.kubeconfig.is_some() || arguments.context.is_some();
    if let Err(problem) = output::log(arguments.verbose, existing_cluster) {
        output::error(&evenkeel::chain(problem.as_ref()));
        return ExitCode::from(2);
    }
    let run = async {
        if existing_cluster {
            run_on_existing_cluster(&arguments).await
        } else {
            run_demo(&arguments).await
        }
    };
    let ended = tokio::select! {
        biased;
        ended = run => ended,
        // For example by `| head -1`.
        () = output::closed() => return ExitCode::SUCCESS,
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            output::error(&evenkeel::chain(error.as_ref()));
            ExitCode::from(2)
        }
    }
}

/// Runs only the operator, on an existing cluster.
async fn run_on_existing_cluster(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let manager = Manager::builder("appservice-operator")
        .kubeconfig(arguments.kubeconfig.clone())
        .context(arguments.context.clone())
        .leader_election(arguments.leader_elect.then(LeaderElection::new))
        .webhooks(match arguments.webhooks {
            true => WebhookOptions::new(),
            false => WebhookOptions::new().disabled(),
        })
        .metrics_bind_address(arguments.metrics_bind_address)
        .health_probe_bind_address(arguments.health_probe_bind_address)
        .connect()
        .await?;
    if arguments.install {
        manager.client().install_crd::<AppService>().await?;
        print_line("The AppService CRD is installed.");
    }
    let dir = arguments.records.clone().unwrap_or_else(|| "dns-records".into());
    let zone = Zone::new(&dir).with_context(|| format!("cannot use {}", dir.display()))?;
    AppServices { zone }.register(&manager)?;
    manager.run().await?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a cluster in this process, the operator and the scenario.
async fn run_demo(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let temp_dir = TempDir::new().context("no directory for the kubeconfig")?;
    let dir = arguments.records.clone().unwrap_or_else(|| temp_dir.0.join("dns"));
    let zone = Zone::new(&dir).with_context(|| format!("cannot use {}", dir.display()))?;

    let cluster = Cluster::start().await.context("cannot start the cluster")?;
    let serving = cluster.serve(([127, 0, 0, 1], 0).into()).await.context("cannot listen")?;
    let kubeconfig = temp_dir.0.join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).context("cannot write the kubeconfig")?;
    print_line(&format!(
        "A Kubernetes 1.36 API is ready at {}; pods are simulated.",
        serving.url()
    ));
    if !arguments.once {
        print_line(&format!("\n  export KUBECONFIG={}", kubeconfig.display()));
    }

    let webhooks = WebhookOptions::new().in_process().service_namespace("appservice-system");
    let manager =
        Manager::builder("appservice-operator").webhooks(webhooks).build(cluster.client());
    manager.client().install_crd::<AppService>().await?;
    let controller = AppServices { zone: zone.clone() }.register(&manager)?;
    cluster.serve_webhooks(&manager).await?;
    let mut running = JoinSet::new();
    running.spawn(manager.clone().run());

    let client = Manager::builder("scenario").build(cluster.client()).client().clone();
    let namespace = "default".to_owned();
    let environment = Environment { client, namespace, zone, controllers: true, kubelets: true };
    let mut summary = Summary::default();
    let mut show = |line: Progress| {
        summary.count(&line);
        print_progress(line);
    };
    let result = tokio::select! {
        biased;
        result = scenario::run(&environment, &mut show) => result,
        // Ctrl-C, or an error of the manager.
        Some(ended) = running.join_next() => {
            ended??;
            print_line("\nStopped before the scenario completed.");
            return Ok(ExitCode::FAILURE);
        }
    };
    environment.client.cache().stop().await;
    let code = match result {
        Ok(()) => {
            print_line(&format!("\nScenario completed: {summary}."));
            ExitCode::SUCCESS
        }
        Err(error) => {
            output::error(&format!("scenario failed after {summary}: {error}"));
            ExitCode::FAILURE
        }
    };
    if arguments.once {
        manager.stop();
    } else {
        print_instructions(&dir);
    }
    let mut records = controller.journal().follow();
    loop {
        tokio::select! {
            biased;
            Some(record) = records.recv(), if !arguments.once => print_line(&record.to_string()),
            ended = running.join_next() => {
                ended.transpose()?.transpose()?;
                break;
            }
        }
    }
    if !arguments.once {
        print_line("\nStopping.");
    }
    serving.stop().await;
    cluster.stop().await;
    if !arguments.once {
        print_line("Stopped. The cluster and its objects are deleted.");
    }
    Ok(code)
}

/// Counts the progress of the scenario.
#[derive(Default)]
struct Summary {
    steps: usize,
    verified: usize,
    skipped: usize,
}

impl Summary {
    fn count(&mut self, line: &Progress) {
        match line {
            Progress::Step(_) => self.steps += 1,
            Progress::Verified(..) => self.verified += 1,
            Progress::Skipped(_) => self.skipped += 1,
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} steps, {} results verified", self.steps, self.verified)?;
        if self.skipped > 0 { write!(f, ", {} skipped", self.skipped) } else { Ok(()) }
    }
}

fn print_instructions(dir: &Path) {
    print_line(
        "\nThe cluster keeps running. In another terminal, with the KUBECONFIG above, try:\n",
    );
    print_line("  kubectl apply -f examples/appservice/web.yaml");
    print_line("  kubectl get appservices,deployments,pods");
    print_line("  kubectl set image deployment/web app=something:else");
    print_line("  kubectl delete appservice web\n");
    print_line(&format!("DNS records are files in {}.", dir.display()));
    print_line("Each reconcile is printed below with its cause. Press Ctrl-C to stop.\n");
}

/// A temporary directory, removed on drop.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> std::io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("appservice-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A failure leaves files in the system's temporary directory only.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
