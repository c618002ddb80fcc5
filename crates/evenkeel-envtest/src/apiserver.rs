//! The drop-in kube-apiserver: command line, certificates, startup and shutdown.
//!
//! The flags are parsed into a [`Config`]. [`run`] binds a listener, calls `make_service` and
//! serves until SIGTERM or SIGINT. The service is independent of this crate: it receives the
//! [`ServerConfig`] that apply to it and the signal that ends its watches.

mod config;

use std::{
    convert::Infallible, error::Error as StdError, fs::File, io::Write, net::SocketAddr, path::Path,
};

use bytes::Bytes;
use evenkeel_apiserver::{
    ServiceAccountOptions, audit, faults,
    identity::token_file::TokenFile,
    listen::{ListenOptions, Listener, raise_open_files_limit, tls::Tls},
};
use evenkeel_pki::certificates::{Authority, KeyedCertificate, load_bundle};
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::sync::watch;
use tower_service::Service;

pub use self::config::{Config, InvalidCidr, ListenerConfig, ServerConfig, ServiceCidr};
use crate::{
    flags::{self, Flags, Style},
    process::{self, BoxError, StopSignals},
};

/// The Kubernetes version that `--version` prints.
const VERSION: &str = "v1.36.3";

/// A plan of faults, and what they are logged to.
pub type FaultPlan = (faults::Plan, Box<dyn Write + Send>);

/// The input of `make_service`.
#[non_exhaustive]
pub struct Startup {
    /// The settings of the API server.
    pub settings: ServerConfig,
    /// The users that authenticate with a static bearer token.
    pub tokens: TokenFile,
    /// How service account tokens are signed and verified.
    pub service_accounts: ServiceAccountOptions,
    /// What is recorded in the audit log, and where.
    pub audit: Option<(audit::Policy, audit::LogFile)>,
    /// The faults to inject, and where they are logged.
    pub faults: Option<FaultPlan>,
    /// The address that the listener is bound to.
    pub address: SocketAddr,
    /// Becomes `true` when the process stops; watches must end then.
    pub stopping: watch::Receiver<bool>,
}

/// Runs the command line: prints help or version, or serves until SIGTERM or SIGINT.
pub async fn main<M, F, S, B, E>(arguments: Vec<String>, make_service: M) -> Result<(), BoxError>
where
    M: FnOnce(Startup) -> F,
    F: Future<Output = Result<S, E>>,
    E: Into<BoxError>,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let flags = Flags::parse(config::FLAGS, Style::Kubernetes, arguments)?;
    if flags.switch("help", false)? {
        process::print(&format!(
            "The Evenkeel API server as a drop-in kube-apiserver. All flags of kube-apiserver are \
             accepted; these are supported:\n\nUsage:\n  kube-apiserver [flags]\n\n{}",
            flags::help(config::FLAGS)
        ));
        return Ok(());
    }
    if matches!(flags.text("version"), Some("true" | "raw")) {
        process::print(&format!("Kubernetes {VERSION}\n"));
        return Ok(());
    }
    for flag in flags.ignored() {
        process::log(&format!("kube-apiserver: ignoring --{flag}: not supported by Evenkeel"));
    }
    run(Config::from_flags(&flags, process::variable)?, make_service).await
}

/// Serves the service that `make_service` returns until SIGTERM or SIGINT.
pub async fn run<M, F, S, B, E>(config: Config, make_service: M) -> Result<(), BoxError>
where
    M: FnOnce(Startup) -> F,
    F: Future<Output = Result<S, E>>,
    E: Into<BoxError>,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let mut signals = StopSignals::install()?;
    // Each connection uses a file descriptor.
    raise_open_files_limit();
    let Config { serving, settings } = config;
    let listener = listen(&serving, &settings)?;
    let tokens = match &serving.token_auth_file {
        Some(path) => TokenFile::load(path)?,
        None => TokenFile::default(),
    };
    let (stop, stopping) = watch::channel(false);
    let address = listener.local_addr();
    let service_accounts = service_accounts(&settings)?;
    let audit = audit_log(&settings)?;
    let faults = faults(&settings)?;
    let startup = Startup { settings, tokens, service_accounts, audit, faults, address, stopping };
    let service = make_service(startup).await.map_err(Into::into)?;

    process::log(&format!("Serving securely on {address}"));
    listener
        .serve(service, async {
            signals.received().await;
            stop.send_replace(true);
        })
        .await;
    process::log(&format!("Stopped listening on {address}"));
    Ok(())
}

/// Reads the audit policy and opens the log. Without a policy nothing is recorded.
fn audit_log(settings: &ServerConfig) -> Result<Option<(audit::Policy, audit::LogFile)>, BoxError> {
    let policy = match &settings.audit_policy_file {
        Some(path) => audit::Policy::from_yaml(&read(path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?,
        None => return Ok(None),
    };
    let Some(path) = &settings.audit_log_path else { return Ok(None) };
    let log = audit::LogFile::open(path, settings.audit_log.clone())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Some((policy, log)))
}

/// Reads the plan of the faults and opens their log. Without a plan none are injected.
fn faults(settings: &ServerConfig) -> Result<Option<FaultPlan>, BoxError> {
    let Some(path) = &settings.faults_file else { return Ok(None) };
    let plan = faults::Plan::read(path)?;
    process::log(&format!("Injecting the faults of {}", path.display()));
    let log: Box<dyn Write + Send> = match &settings.faults_log_path {
        None => Box::new(std::io::stderr()),
        Some(path) => {
            // Each suite of a project starts a server of its own.
            let file = File::options().create(true).append(true).open(path);
            Box::new(file.map_err(|error| format!("{}: {error}", path.display()))?)
        }
    };
    Ok(Some((plan, log)))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads the keys of service account tokens.
fn service_accounts(settings: &ServerConfig) -> Result<ServiceAccountOptions, BoxError> {
    let mut options = ServiceAccountOptions::default();
    options.issuers.clone_from(&settings.service_account_issuers);
    options.audiences.clone_from(&settings.api_audiences);
    options.signing_key =
        settings.service_account_signing_key_file.as_deref().map(read).transpose()?;
    for path in &settings.service_account_key_files {
        options.verification_keys.push(read(path)?);
    }
    options.max_token_expiration = settings.service_account_max_token_expiration;
    options.extend_token_expiration = settings.service_account_extend_token_expiration;
    options.jwks_uri.clone_from(&settings.service_account_jwks_uri);
    Ok(options)
}

fn listen(serving: &ListenerConfig, settings: &ServerConfig) -> Result<Listener, BoxError> {
    let certificate = serving_certificate(serving, settings)?;
    let authorities = match &serving.client_ca_file {
        Some(path) => load_bundle(path)?,
        None => Vec::new(),
    };
    let tls = Tls::new(&certificate, &authorities, process::now_unix)?;
    let mut options = ListenOptions::default();
    options.allow_non_loopback = serving.allow_non_loopback;
    let address = SocketAddr::new(serving.bind_address, serving.secure_port);
    Ok(Listener::bind(address, tls, options)?)
}

/// Returns the certificate named by the flags, the one in the certificate directory, or a new one.
fn serving_certificate(
    serving: &ListenerConfig,
    settings: &ServerConfig,
) -> Result<KeyedCertificate, BoxError> {
    if let Some((certificate, key)) = &serving.tls_pair {
        return Ok(KeyedCertificate::load(certificate, key)?);
    }
    if let Some(directory) = &serving.cert_dir
        && let Some(found) = KeyedCertificate::load_from_directory(directory)?
    {
        return Ok(found);
    }
    let service_addresses = settings.service_cidrs.iter().map(ServiceCidr::first_address);
    let generated = Authority::generate("evenkeel", process::now_unix())?
        .issue_serving([serving.bind_address].into_iter().chain(service_addresses))?;
    match &serving.cert_dir {
        Some(directory) => {
            generated.save_to_directory(directory)?;
            let dir = Path::display(directory);
            process::log(&format!("Generated self-signed cert ({dir}/apiserver.crt, .key)"));
        }
        None => process::log("Generated self-signed cert in-memory"),
    }
    Ok(generated)
}
