//! `evenkeel cluster`: the embedded API server behind a loopback address, with the controllers and
//! nodes that make it a cluster.

use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::listen::{Options, raise_open_files_limit};
use evenkeel_cluster::{Cluster, Settings};
use tracing_subscriber::filter::LevelFilter;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start a cluster and keep it running until Ctrl-C
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
    #[arg(long = "without", value_name = "CONTROLLER")]
    without: Vec<String>,
    /// Only the API server: no controllers, no nodes, nothing happens by itself
    #[arg(long, conflicts_with_all = ["nodes", "without"])]
    bare: bool,
    /// Switch off an admission plugin; may be repeated
    #[arg(long = "disable-admission-plugin", value_name = "NAME")]
    disabled: Vec<String>,
    /// Log what the server does
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Start(start) = command;
    // A full disk or a damaged log must be seen without a flag.
    let level = if start.verbose { LevelFilter::INFO } else { LevelFilter::WARN };
    let colors = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
    log.with_ansi(colors).with_max_level(level).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(self::start(start))
}

async fn start(options: &Start) -> anyhow::Result<()> {
    // Each connection is an open file.
    raise_open_files_limit();
    let mut builder = ApiServer::builder().disable_admission_plugins(options.disabled.clone());
    if let Some(directory) = &options.data_dir {
        builder = builder.data_dir(directory);
    }
    let server = builder.build().await.context("cannot start the cluster")?;
    let cluster = if options.bare {
        Cluster::bare(server)
    } else {
        let without = options.without.iter().cloned().collect();
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

    let kubeconfig = absolute(&options.kubeconfig);
    say(&format!("A Kubernetes 1.36 API is ready at {}", serving.url()));
    say("");
    say(&format!("  export KUBECONFIG={}", kubeconfig.display()));
    say(if options.bare {
        "  kubectl get namespaces"
    } else {
        "  kubectl create deployment web --image=nginx --replicas=3 && kubectl get pods --watch"
    });
    say("");
    match &options.data_dir {
        Some(directory) => {
            say(&format!("Objects are kept in {}. Ctrl-C stops.", directory.display()))
        }
        None => say("Objects live in memory and are gone at the end. Ctrl-C stops."),
    }
    tokio::signal::ctrl_c().await.context("cannot wait for Ctrl-C")?;
    // The controllers go first, as long as there is somebody to talk to.
    cluster.stop().await;
    serving.stop().await;
    say("Stopped.");
    Ok(())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// One line for the person at the terminal.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    // Nobody reads any more: nothing can be done about it, and nothing needs to be.
    let _ = writeln!(std::io::stderr(), "{line}");
}
