//! The servers of a manager: metrics and health probes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_pki::tls::ServingCertificate;
use tokio_util::sync::CancellationToken;

use super::bind::BindAddress;
use super::{Inner, Manager, RegisterError, readiness};
use crate::error::{Error, Result};
use crate::lifecycle::{Group, Pending};
use crate::observe::authorize::Authorizer;
use crate::observe::health::{Checks, Endpoint, HealthHandler};
use crate::observe::metrics::MetricsHandler;
use crate::serve::{Handler, Limits, Server, Tls, keep_certificate};

/// The certificate and the key of a server, in files that are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertificateFiles {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// The options of the servers; both are off unless set.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerOptions {
    pub(super) metrics: Option<BindAddress>,
    /// HTTPS except on loopback unless set.
    pub(super) metrics_secure: Option<bool>,
    /// Self-signed unless set.
    pub(super) metrics_certificate: Option<CertificateFiles>,
    pub(super) health: Option<BindAddress>,
}

/// The state of the servers of one manager.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) metrics_address: OnceLock<SocketAddr>,
    pub(super) health_address: OnceLock<SocketAddr>,
    healthz: Arc<Checks>,
    readyz: Arc<Checks>,
}

/// Returns the limits of both servers: they have few clients, and a scrape or a probe that is lost when
/// the manager stops does no harm.
fn limits() -> Limits {
    Limits {
        connections: 64,
        request: Duration::from_secs(30),
        drain: Duration::from_secs(1),
        ..Limits::default()
    }
}

/// Adds the servers to the runnables of a new manager.
pub(super) fn register(inner: &Arc<Inner>, options: ServerOptions) {
    let ServerOptions { metrics, metrics_secure, metrics_certificate, health } = options;
    let push = |pending| {
        // A new manager is not stopping.
        let _ = inner.environment.lifecycle.push(pending);
    };
    if let Some(address) = metrics.and_then(BindAddress::address) {
        let secure = metrics_secure.unwrap_or(!address.ip().is_loopback());
        let weak = Arc::downgrade(inner);
        push(Pending::new(Group::Servers, "metrics server", move |stop| async move {
            match weak.upgrade() {
                Some(inner) => {
                    serve_metrics(&inner, address, secure, metrics_certificate, stop).await
                }
                None => Ok(()),
            }
        }));
    }
    if let Some(address) = health.and_then(BindAddress::address) {
        let weak = Arc::downgrade(inner);
        push(Pending::new(Group::Servers, "health probe server", move |stop| async move {
            match weak.upgrade() {
                Some(inner) => serve_health(inner, address, stop).await,
                None => Ok(()),
            }
        }));
    }
}

async fn serve_metrics(
    inner: &Inner,
    address: SocketAddr,
    secure: bool,
    files: Option<CertificateFiles>,
    stop: CancellationToken,
) -> Result<()> {
    let environment = &inner.environment;
    let authorizer = secure.then(|| Authorizer::new(environment.client.clone()));
    let handler = MetricsHandler { metrics: environment.metrics.clone(), authorizer };
    let run =
        |tls| bind_and_run("metrics", address, tls, handler, &inner.servers.metrics_address, stop);
    let Some(files) = files.filter(|_| secure) else {
        let tls = secure.then(|| Tls::self_signed(&["localhost"], &environment.clock)).transpose();
        return run(tls.map_err(Error::new)?).await;
    };
    let certificate = Arc::new(ServingCertificate::default());
    let tls = Tls::new(certificate.clone(), &[], &environment.clock).map_err(Error::new)?;
    let counts = environment.metrics.certificates.clone();
    let CertificateFiles { certificate: path, key } = &files;
    tokio::select! {
        biased;
        served = run(Some(tls)) => served,
        kept = keep_certificate(path, key, &certificate, &counts, || {}) => kept,
    }
}

async fn serve_health(
    inner: Arc<Inner>,
    address: SocketAddr,
    stop: CancellationToken,
) -> Result<()> {
    let (one, other) = (Arc::clone(&inner), Arc::clone(&inner));
    let handler = HealthHandler(vec![
        Endpoint {
            name: "healthz",
            own: Box::new(move || {
                let manager = Manager(Arc::clone(&one));
                readiness::liveness(&manager.controllers(), &manager.leader_elections())
            }),
            added: inner.servers.healthz.clone(),
        },
        Endpoint {
            name: "readyz",
            own: Box::new(move || {
                let checks = Manager(Arc::clone(&other)).readiness().checks;
                checks.into_iter().map(|check| (check.name, check.problem)).collect()
            }),
            added: inner.servers.readyz.clone(),
        },
    ]);
    bind_and_run("health probes", address, None, handler, &inner.servers.health_address, stop).await
}

/// Serves at `address` until `stop`; `bound` receives the address with its port.
async fn bind_and_run<H: Handler>(
    name: &str,
    address: SocketAddr,
    tls: Option<Tls>,
    handler: H,
    bound: &OnceLock<SocketAddr>,
    stop: CancellationToken,
) -> Result<()> {
    let server = Server::bind(address, tls).await;
    let server = server.map_err(|error| Error::new(CannotBind { address, source: error }))?;
    let address = server.local_addr();
    tracing::info!(%address, server = name, "serving");
    let _ = bound.set(address);
    server.limits(limits()).run(Arc::new(handler), stop.cancelled_owned()).await;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("cannot bind {address}")]
struct CannotBind {
    address: SocketAddr,
    source: std::io::Error,
}

impl Manager {
    /// Adds a check to `/healthz`: the kubelet restarts the container when it fails.
    ///
    /// The checks `ping`, `workers` (no reconcile runs longer than its timeout allows) and
    /// `leader-election` (the process does not outlive its lease) are always there. See [`ManagerBuilder::health_probe_bind_address`](super::ManagerBuilder) for where
    /// they are served.
    ///
    /// ```no_run
    /// # fn example(manager: &evenkeel::Manager) -> evenkeel::Result<()> {
    /// manager.add_healthz_check("disk", || async {
    ///     std::fs::metadata("/data").map(drop)?;
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When a check of that name exists.
    pub fn add_healthz_check<F>(
        &self,
        name: &str,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<(), RegisterError>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        add(&self.0.servers.healthz, name, check)
    }

    /// Adds a check to `/readyz`: webhooks of this replica are not called while it fails.
    ///
    /// The checks of [`readiness`](Manager::readiness) are always there.
    ///
    /// # Errors
    /// When a check of that name exists.
    pub fn add_readyz_check<F>(
        &self,
        name: &str,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<(), RegisterError>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        add(&self.0.servers.readyz, name, check)
    }

    /// Returns the address of `/metrics` with its actual port, once it is served.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.0.servers.metrics_address.get().copied()
    }

    /// Returns the address of `/healthz` and `/readyz` with its actual port, once they are served.
    #[must_use]
    pub fn health_probe_address(&self) -> Option<SocketAddr> {
        self.0.servers.health_address.get().copied()
    }
}

fn add<F>(
    checks: &Checks,
    name: &str,
    check: impl Fn() -> F + Send + Sync + 'static,
) -> Result<(), RegisterError>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    match checks.add(name, check) {
        true => Ok(()),
        false => Err(RegisterError::CheckTaken(name.to_owned())),
    }
}
