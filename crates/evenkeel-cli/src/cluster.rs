//! `evenkeel cluster`: the embedded API server behind a loopback address, with the controllers and
//! nodes that make it a cluster.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::listen::{Options, raise_open_files_limit};
use evenkeel_cluster::{Cluster, Settings};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start a cluster and keep it running until Ctrl-C or SIGTERM
    Start(Start),
}

#[derive(Args)]
pub(crate) struct Start {
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Port to listen on; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Allow an address that other machines can reach
    #[arg(long)]
    allow_non_loopback: bool,
    /// Keep all objects in this directory; without it they are gone at the end
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to write the kubeconfig
    #[arg(long, value_name = "FILE", default_value = "evenkeel.kubeconfig")]
    kubeconfig: PathBuf,
    /// How many simulated nodes run the pods
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Switch off a controller, by its name in kube-controller-manager; may be repeated
    #[arg(long = "disable-controller", value_name = "NAME")]
    disabled_controllers: Vec<String>,
    /// Only the API server: no controllers, no nodes, nothing happens by itself
    #[arg(long, conflicts_with_all = ["nodes", "disabled_controllers"])]
    api_only: bool,
    /// Switch off an admission plugin; may be repeated
    #[arg(long = "disable-admission-plugin", value_name = "NAME")]
    disabled_admission_plugins: Vec<String>,
    /// Log what the server does
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Start(start) = command;
    // A full disk or a damaged log must be seen without a flag.
    evenkeel::logging::init(Some(if start.verbose { "info" } else { "warn" }))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(self::start(start))
}

async fn start(options: &Start) -> anyhow::Result<()> {
    // Each connection is an open file.
    raise_open_files_limit();
    let mut builder =
        ApiServer::builder().disable_admission_plugins(options.disabled_admission_plugins.clone());
    if let Some(directory) = &options.data_dir {
        builder = builder.data_dir(directory);
    }
    check_kubeconfig(&options.kubeconfig).await?;
    let server = builder.build().await.context("cannot start the cluster")?;
    let cluster = if options.api_only {
        Cluster::bare(server)
    } else {
        let without = options.disabled_controllers.iter().cloned().collect();
        let settings = Settings { nodes: options.nodes, without, ..Settings::default() };
        Cluster::on(server, &settings).context("cannot start the cluster")?
    };
    let address = SocketAddr::new(options.address, options.port);
    let mut listen = Options::default();
    listen.allow_non_loopback = options.allow_non_loopback;
    let serving = cluster.server().serve_with(address, listen).await.context("cannot listen")?;
    serving
        .write_kubeconfig(&options.kubeconfig)
        .with_context(|| format!("cannot write {}", options.kubeconfig.display()))?;
    let url = serving.url();
    let mut signals = StopSignals::install().context("cannot wait for signals")?;

    let kubeconfig = absolute(&options.kubeconfig);
    print_line(&format!("A Kubernetes 1.36 API is ready at {}", serving.url()));
    print_line(if options.api_only {
        "There are no controllers and no nodes: nothing happens by itself."
    } else {
        "Controllers run; pods are simulated, so no container is started."
    });
    print_line("");
    print_line(&format!("  export KUBECONFIG={}", kubeconfig.display()));
    print_line(if options.api_only {
        "  kubectl get namespaces"
    } else {
        "  kubectl create deployment web --image=nginx --replicas=3 && kubectl get pods --watch"
    });
    print_line("");
    match &options.data_dir {
        Some(directory) => print_line(&format!(
            "Objects are kept in {}. Press Ctrl-C to stop.",
            directory.display()
        )),
        None => {
            print_line("Objects are kept in memory until the cluster stops. Press Ctrl-C to stop.")
        }
    }
    signals.received().await;
    print_line("Stopping.");
    let stop = async {
        // The controllers first, while the server still answers them.
        cluster.stop().await;
        serving.stop().await;
    };
    tokio::select! {
        () = stop => {}
        // A second signal does not wait.
        () = signals.received() => anyhow::bail!("stopped at once: requests were cut off"),
    }
    if options.data_dir.is_none() {
        // Its certificates are of no use any more.
        remove_kubeconfig(&options.kubeconfig, &url);
    }
    print_line("Stopped.");
    Ok(())
}

/// Fails if the kubeconfig belongs to a cluster that still answers: its users would lose access.
async fn check_kubeconfig(path: &Path) -> anyhow::Result<()> {
    let Some(server) = kubeconfig_server(path) else { return Ok(()) };
    let Some(address) = server.strip_prefix("https://") else { return Ok(()) };
    let connect = tokio::net::TcpStream::connect(address);
    let connected = tokio::time::timeout(Duration::from_secs(1), connect).await;
    if matches!(connected, Ok(Ok(_))) {
        anyhow::bail!(
            "{} belongs to a cluster that is running at {server}\n\
             hint: stop that cluster, or write another file with --kubeconfig FILE",
            path.display()
        );
    }
    Ok(())
}

fn remove_kubeconfig(path: &Path, url: &str) {
    if kubeconfig_server(path).as_deref() == Some(url) {
        // Gone already, or not ours to remove: either is fine.
        let _ = std::fs::remove_file(path);
    }
}

/// The URL in a kubeconfig of a single cluster.
fn kubeconfig_server(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("server:"))?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// The signals that stop the cluster: SIGINT (Ctrl-C) and SIGTERM.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    fn install() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// One line for the person at the terminal.
pub(crate) fn print_line(line: &str) {
    use std::io::Write as _;
    // A closed stderr is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}
