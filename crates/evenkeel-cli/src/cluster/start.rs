//! `evenkeel cluster start`.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use evenkeel_apiserver::audit::{LogFile, LogOptions, Policy};
use evenkeel_apiserver::listen::{ListenOptions, raise_open_files_limit};
use evenkeel_apiserver::{AccessTrail, ApiServer, faults};
use evenkeel_cluster::{Cluster, ClusterOptions};

use super::connect::Process;
use super::embedded::{Embedded, check_kubeconfig};
use super::{detach, snapshot};
use crate::output::progress;
use crate::signals::StopSignals;

#[derive(Args)]
pub(crate) struct Start {
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Port to listen on; 0 selects a free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Allow an --address that other machines can reach
    #[arg(long)]
    allow_non_loopback: bool,
    /// Directory to store objects in; by default they are kept in memory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// File to write the kubeconfig to
    #[arg(long, value_name = "FILE", default_value = "evenkeel.kubeconfig")]
    kubeconfig: PathBuf,
    /// Number of simulated nodes
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Controller to disable, by its name in kube-controller-manager; may be repeated
    #[arg(long = "disable-controller", value_name = "NAME")]
    disabled_controllers: Vec<String>,
    /// Run only the API server, without controllers and nodes
    #[arg(long, conflicts_with_all = ["nodes", "disabled_controllers"])]
    api_only: bool,
    /// Admission plugin to disable; may be repeated
    #[arg(long = "disable-admission-plugin", value_name = "NAME")]
    disabled_admission_plugins: Vec<String>,
    /// Audit policy: which requests are recorded in the audit log
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// File of the audit log; - is the standard output
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,
    /// Plan of faults to inject into requests: watches that are cut, expired or late, lost
    /// responses, rejections (format: README of evenkeel-envtest)
    #[arg(long, value_name = "PLAN")]
    faults: Option<PathBuf>,
    /// File to log injected faults to, as JSON lines; by default they are printed
    #[arg(long, value_name = "FILE", requires = "faults")]
    faults_log: Option<PathBuf>,
    /// Log at level info instead of warn
    #[arg(short, long)]
    verbose: bool,
    /// Run in the background; `cluster stop` stops it
    #[arg(long)]
    detach: bool,
    /// File that `cluster snapshot` wrote, to start with its objects
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
    /// Set in the background process: the file that its log is written to
    #[arg(long, hide = true, value_name = "FILE")]
    background_log: Option<PathBuf>,
}

pub(crate) fn run(start: &Start) -> anyhow::Result<()> {
    if start.detach {
        return crate::block_on(start_detached(start));
    }
    // A full disk or a corrupt log must be reported without a flag.
    evenkeel::logging::init(Some(if start.verbose { "info" } else { "warn" }))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(self::start(start))
}

async fn start_detached(options: &Start) -> anyhow::Result<()> {
    check_kubeconfig(&options.kubeconfig).await?;
    let cluster = detach::start(&background_arguments(), &options.kubeconfig).await?;
    print_banner(options, &cluster.url);
    progress("It runs in the background. Stop it with: evenkeel cluster stop");
    Ok(())
}

/// Returns the arguments after `cluster start`, without `--detach`. Relative paths stay valid: the
/// process is started in the same directory.
fn background_arguments() -> Vec<String> {
    let arguments = std::env::args().skip_while(|argument| argument != "start").skip(1);
    arguments.filter(|argument| argument != "--detach").collect()
}

/// Returns the arguments that start the background process again.
fn restart_arguments() -> Vec<String> {
    let mut arguments = Vec::new();
    let mut given = background_arguments().into_iter();
    while let Some(argument) = given.next() {
        let name = argument.split('=').next().unwrap_or_default();
        // The log, and what a snapshot replaced or a restart sets.
        if [detach::FLAG, "--load", "--port"].contains(&name) {
            if !argument.contains('=') {
                given.next();
            }
            continue;
        }
        arguments.push(argument);
    }
    arguments
}

async fn start(options: &Start) -> anyhow::Result<()> {
    // Each connection uses a file descriptor.
    raise_open_files_limit();
    let mut cluster_options = ClusterOptions::new().nodes(options.nodes);
    cluster_options.disabled_controllers = options.disabled_controllers.iter().cloned().collect();
    let disabled_plugins = options.disabled_admission_plugins.clone();
    cluster_options.disabled_admission_plugins = disabled_plugins.iter().cloned().collect();
    let mut builder = match options.api_only {
        true => ApiServer::builder().rbac().disable_admission_plugins(disabled_plugins),
        false => cluster_options.server(),
    };
    if let Some(directory) = &options.data_dir {
        builder = builder.data_dir(directory);
    }
    if let (Some(policy), Some(log)) = (&options.audit_policy_file, &options.audit_log_path) {
        let (policy, log) = audit_log(policy, log)?;
        builder = builder.audit(policy, log);
    }
    if let Some(plan) = &options.faults {
        let plan = faults::Plan::read(plan)?;
        builder = match &options.faults_log {
            Some(log) => builder.faults(plan, create(log)?),
            None => builder.faults(plan, std::io::stderr()),
        };
    }
    if let Some(file) = &options.load {
        builder = builder.load(snapshot::read(file)?);
    }
    check_kubeconfig(&options.kubeconfig).await?;
    let server = builder.build().await.context("cannot start the cluster")?;
    let cluster = if options.api_only {
        Cluster::api_only(server)
    } else {
        cluster_options.root_ca = Some(server.certificate_authority_pem()?);
        Cluster::with_server(server, &cluster_options).context("cannot start the cluster")?
    };
    let address = SocketAddr::new(options.address, options.port);
    let mut listen = ListenOptions::default();
    listen.allow_non_loopback = options.allow_non_loopback;
    let process = Process {
        pid: std::process::id(),
        background: options.background_log.is_some().then(restart_arguments),
        log: options.background_log.clone(),
        data_dir: options.data_dir.as_deref().map(absolute),
    };
    let cluster = Embedded::serve(cluster, address, listen, &options.kubeconfig, &process).await?;
    let mut signals = StopSignals::install()?;
    print_banner(options, &cluster.url());
    progress("Press Ctrl-C to stop.");
    signals.received().await;
    progress("Stopping.");
    tokio::select! {
        () = cluster.stop() => {}
        // A second signal skips the graceful shutdown.
        () = signals.received() => anyhow::bail!("interrupted: open requests were aborted"),
    }
    progress("Stopped.");
    Ok(())
}

/// Starts a cluster on a loopback address, in this process, and records its requests in `access`.
///
/// # Errors
/// If the kubeconfig belongs to another cluster, or the cluster cannot be started.
pub(crate) async fn embedded(
    kubeconfig: &Path,
    port: u16,
    data_dir: Option<&Path>,
    access: AccessTrail,
) -> anyhow::Result<Embedded> {
    raise_open_files_limit();
    check_kubeconfig(kubeconfig).await?;
    let mut options = ClusterOptions::new();
    let mut builder = options.server().record_access(access);
    if let Some(directory) = data_dir {
        builder = builder.data_dir(directory);
    }
    let server = builder.build().await.context("cannot start the cluster")?;
    options.root_ca = Some(server.certificate_authority_pem()?);
    let cluster = Cluster::with_server(server, &options).context("cannot start the cluster")?;
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let process = Process {
        pid: std::process::id(),
        background: None,
        log: None,
        data_dir: data_dir.map(absolute),
    };
    Embedded::serve(cluster, address, ListenOptions::default(), kubeconfig, &process).await
}

/// Prints how to use a cluster that is ready.
fn print_banner(options: &Start, url: &str) {
    progress(&format!("A Kubernetes 1.36 API is ready at {url}"));
    progress(if options.api_only {
        "Controllers and nodes are disabled."
    } else {
        "Controllers are running. Pods are simulated: no containers are started."
    });
    progress("");
    progress(&format!("  export KUBECONFIG={}", absolute(&options.kubeconfig).display()));
    progress(if options.api_only {
        "  kubectl get namespaces"
    } else {
        "  kubectl create deployment web --image=nginx --replicas=3 && kubectl get pods --watch"
    });
    progress("");
    match &options.data_dir {
        Some(directory) => progress(&format!("Objects are stored in {}.", directory.display())),
        None => progress("Objects are stored in memory only."),
    }
}

/// Reads the audit policy and opens the log.
fn audit_log(policy: &Path, log: &Path) -> anyhow::Result<(Policy, LogFile)> {
    let text = std::fs::read_to_string(policy);
    let text = text.with_context(|| format!("cannot read {}", policy.display()))?;
    let parsed = Policy::from_yaml(&text).with_context(|| policy.display().to_string())?;
    let log = LogFile::open(log, LogOptions::default())
        .with_context(|| format!("cannot open {}", log.display()))?;
    Ok((parsed, log))
}

fn create(path: &Path) -> anyhow::Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
