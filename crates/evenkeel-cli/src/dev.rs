//! `evenkeel dev`: an embedded cluster, and the operator in it, built and started again on each
//! change of its sources.
//!
//! The cluster is part of this process, so its objects stay when the operator is started again. The
//! operator runs with the permissions that `evenkeel manifests` renders for it.

mod access;

mod report;

mod sources;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use evenkeel_apiserver::AccessTrail;
use serde_json::Value;
use tokio::time::Instant;

use crate::build::{self, BuildArgs};
use crate::cluster;
use crate::manifests::Source;
use crate::operator::socket::{self, Operator};
use crate::output::{self, progress};
use crate::process::Running;
use crate::signals::StopSignals;
use crate::target::Connection;
use crate::{account, apply, manifests, samples};
use access::Accesses;
use sources::Sources;

#[derive(Args)]
#[command(after_help = "\
The objects in samples/ are created at the first start. kubectl works with the kubeconfig that is
printed; `evenkeel why`, `queue`, `top` and `trigger` show what the operator does. Requests that the
permissions of the operator do not allow are printed.

Example:
  evenkeel dev --persist .evenkeel")]
pub(crate) struct Dev {
    #[command(flatten)]
    build: BuildArgs,
    /// Directory that keeps the objects of the cluster between runs
    #[arg(long, value_name = "DIR")]
    persist: Option<PathBuf>,
    /// File to write the kubeconfig to
    #[arg(long, value_name = "FILE", default_value = "evenkeel.kubeconfig")]
    kubeconfig: PathBuf,
    /// Port of the API server; 0 selects a free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Do not create the objects in samples/
    #[arg(long)]
    no_samples: bool,
    /// Run the operator as cluster administrator instead of its service account
    #[arg(long)]
    as_admin: bool,
    /// Directory to write the requests of the operator to, for `evenkeel check --access`
    #[arg(long, value_name = "DIR", conflicts_with = "as_admin")]
    access: Option<PathBuf>,
    /// Arguments of the operator
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// The time between two checks of the sources and the process.
const INTERVAL: Duration = Duration::from_millis(100);

/// How long an operator may take to serve its webhooks before the samples are created, and the time
/// between two checks.
const READY_TIMEOUT: Duration = Duration::from_secs(15);
const READY_INTERVAL: Duration = Duration::from_millis(20);

/// What is running, and what was applied.
struct Session<'a> {
    dev: &'a Dev,
    admin: Connection,
    operator: Option<Running>,
    reporter: Option<report::Reporter>,
    /// The CRDs that were applied last.
    crds: Vec<Value>,
    /// The kubeconfig of the operator.
    credentials: Option<PathBuf>,
    has_samples: bool,
    accesses: Accesses,
}

pub(crate) async fn run(dev: &Dev) -> anyhow::Result<()> {
    // Otherwise it would wait for a change that starts a build.
    build::check_project()?;
    let mut signals = StopSignals::install()?;
    let started = Instant::now();
    let trail = AccessTrail::default();
    let persist = dev.persist.as_deref();
    let cluster =
        cluster::start::embedded(&dev.kubeconfig, dev.port, persist, trail.clone()).await?;
    progress(&format!("A Kubernetes 1.36 API is ready at {} ({:.1?}).", cluster.url(), {
        started.elapsed()
    }));
    progress("Pods are simulated: no containers are started.");
    progress("");
    let kubeconfig = std::path::absolute(&dev.kubeconfig)?;
    progress(&format!("  export KUBECONFIG={}", kubeconfig.display()));
    progress("");
    let mut session = Session {
        dev,
        admin: Connection::to_file(&kubeconfig).await?,
        operator: None,
        reporter: None,
        crds: Vec::new(),
        has_samples: dev.no_samples,
        credentials: None,
        accesses: Accesses::new(trail, dev.access.as_deref()),
    };
    let result = tokio::select! {
        result = session.develop() => result,
        () = signals.received() => Ok(()),
    };
    progress("Stopping.");
    let stop = async {
        session.stop().await;
        cluster.stop().await;
    };
    tokio::select! {
        () = stop => {}
        // A second signal skips the graceful shutdown.
        () = signals.received() => {}
    }
    session.accesses.write()?;
    result
}

impl Session<'_> {
    /// Builds and runs the operator until the future is dropped.
    async fn develop(&mut self) -> anyhow::Result<()> {
        let mut sources = Sources::new(Path::new("."));
        loop {
            match build::build(&self.dev.build).await {
                Ok(executable) => {
                    sources.add_dependencies(&executable);
                    if let Err(error) = self.restart(&executable).await {
                        progress(&format!("error: {}", output::error(&error)));
                    }
                }
                Err(error) => {
                    let rest = match self.operator {
                        Some(_) => "; the previous build keeps running",
                        None => "",
                    };
                    progress(&format!("error: {}{rest}", output::error(&error)));
                }
            }
            while !sources.changed() {
                self.check_operator();
                tokio::time::sleep(INTERVAL).await;
            }
            progress("A source file has changed.");
        }
    }

    /// Replaces the running operator.
    async fn restart(&mut self, executable: &Path) -> anyhow::Result<()> {
        let started = Instant::now();
        let source = Source { binary: Some(executable.to_owned()), bin: None };
        let (model, settings) = manifests::describe(&source)?;
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
        self.reporter = None;
        if self.crds != model.crds {
            apply::apply(&self.admin, &model.crds).await?;
            self.crds.clone_from(&model.crds);
        }
        let path = socket::path(&model.name)?;
        let mut command = Command::new(executable);
        if self.dev.as_admin {
            command.env("KUBECONFIG", std::path::absolute(&self.dev.kubeconfig)?);
        } else {
            account::prepare(&self.admin, &model, &settings).await?;
            let text = std::fs::read_to_string(&self.dev.kubeconfig);
            let text = text.context("cannot read the kubeconfig")?;
            let text = account::kubeconfig(&self.admin, &text, &model).await?;
            let file = path.with_extension("kubeconfig");
            evenkeel_pki::kubeconfig::write_atomically(&file, text.as_bytes(), 0o600)?;
            command.env("KUBECONFIG", &file);
            self.credentials = Some(file);
            let (namespace, name) = (&settings.namespace, &model.name);
            self.accesses.user = Some(format!("system:serviceaccount:{namespace}:{name}"));
        }
        command.args(&self.dev.arguments);
        command.env(socket::VARIABLE, &path).env("EVENKEEL_DEVELOPMENT", "1");
        if std::env::var_os("RUST_LOG").is_none() {
            // Each reconcile is printed below, so the log needs only problems.
            command.env("RUST_LOG", "warn");
        }
        self.operator = Some(Running::start_operator(&mut command)?);
        let identity = match self.dev.as_admin {
            true => "as cluster administrator".to_owned(),
            false => format!("as service account {}/{}", settings.namespace, model.name),
        };
        progress(&format!("{} is running {identity} ({:.1?}).", model.name, started.elapsed()));
        self.reporter = Some(report::Reporter::start(&model.name, path.clone()));
        if !self.has_samples {
            self.has_samples = true;
            if model.webhooks.is_some() {
                self.wait_until_ready(&Operator::at(&model.name, path)).await?;
            }
            self.create_samples().await?;
        }
        Ok(())
    }

    /// Waits until the operator serves its webhooks: samples that are created before have no
    /// defaults. An operator that ends or is not ready in time has reported why.
    async fn wait_until_ready(&mut self, operator: &Operator) -> anyhow::Result<()> {
        let started = Instant::now();
        while started.elapsed() < READY_TIMEOUT
            && self.operator.as_mut().is_some_and(|it| it.ended().is_none())
        {
            let operator = operator.clone();
            let status = tokio::task::spawn_blocking(move || operator.status()).await?;
            if status.is_ok_and(|status| status["ready"] == true) {
                break;
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
        Ok(())
    }

    /// Applies the objects in `samples/`.
    async fn create_samples(&self) -> anyhow::Result<()> {
        let objects: Vec<Value> = samples::read()?.into_iter().map(|(_, object)| object).collect();
        apply::apply(&self.admin, &objects).await
    }

    /// Stops the operator and deletes its credentials.
    async fn stop(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
        if let Some(file) = self.credentials.take() {
            // An error means that it is deleted already.
            let _ = std::fs::remove_file(file);
        }
    }

    fn check_operator(&mut self) {
        self.accesses.print_denied();
        let ended = self.operator.as_mut().and_then(Running::ended);
        if let Some(status) = ended {
            progress(&format!("The operator exited ({status}); it restarts on the next change."));
            self.operator = None;
            self.reporter = None;
        }
    }
}
