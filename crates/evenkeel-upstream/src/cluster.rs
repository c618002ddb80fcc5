//! Runs etcd and kube-apiserver with envtest's flags, free loopback ports and test certificates.

use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_pki::MASTERS;
use evenkeel_pki::certificates::{self, Authority};
use evenkeel_pki::kubeconfig::{Credential, Kubeconfig};
use http::Request;
use http_body_util::Full;
use tokio::time::Instant;

use crate::client::{Client, ClientError, Credentials};
use crate::etcd;
use crate::guard::{ProcessGuard, SpawnError};
use crate::locate::Binaries;

/// Options of an upstream cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamOptions {
    /// The CIDR range of Service cluster IPs.
    pub service_cluster_ip_range: String,
    /// Additional flags for kube-apiserver; a later flag overrides an earlier one.
    pub apiserver_flags: Vec<String>,
    /// Whether kube-controller-manager runs.
    pub controllers: bool,
    /// How long kube-apiserver may take to become ready.
    pub startup_timeout: Duration,
}

impl Default for UpstreamOptions {
    fn default() -> Self {
        Self {
            service_cluster_ip_range: "10.0.0.0/24".to_owned(),
            apiserver_flags: Vec::new(),
            controllers: false,
            startup_timeout: Duration::from_secs(90),
        }
    }
}

/// Why a cluster did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A directory cannot be created or a port cannot be bound.
    #[error("cannot prepare the cluster")]
    Io(#[from] io::Error),
    /// The certificates cannot be generated.
    #[error(transparent)]
    Certificates(#[from] certificates::Error),
    /// A program cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// Controllers are requested and kube-controller-manager was not found.
    #[error("no kube-controller-manager among the executables")]
    NoControllers,
    /// A program exited or did not become ready.
    #[error("{program} did not become ready; the end of its log:\n{log}")]
    NotReady {
        /// The program.
        program: &'static str,
        /// The end of its log.
        log: String,
    },
    /// The server is ready and a request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// etcd rejected the compaction.
    #[error("cannot compact etcd")]
    Compact(#[from] etcd::EtcdError),
}

/// An upstream kube-apiserver with its etcd. Dropping it stops both and removes their files.
#[derive(Debug)]
pub struct Cluster {
    // In the order they stop.
    controllers: Option<ProcessGuard>,
    apiserver: Option<ProcessGuard>,
    etcd: ProcessGuard,
    binaries: Binaries,
    options: UpstreamOptions,
    address: SocketAddr,
    etcd_address: SocketAddr,
    credentials: Credentials,
    /// In the directory of etcd, so that the API server can be restarted.
    certificates: PathBuf,
    kubeconfig: PathBuf,
    dir: TempDir,
}

/// Attempts with other ports: another process may bind one after `free_ports` released it.
const ATTEMPTS: usize = 3;

impl Cluster {
    /// Starts etcd and kube-apiserver and waits until `/readyz` returns ok.
    ///
    /// # Errors
    ///
    /// If one of them does not start; the error contains the end of its log.
    pub async fn start(binaries: &Binaries, options: &UpstreamOptions) -> Result<Self, StartError> {
        let mut attempt = 1;
        loop {
            match Self::attempt(binaries, options).await {
                Err(StartError::NotReady { log, .. })
                    if log.contains("address already in use") && attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn attempt(binaries: &Binaries, options: &UpstreamOptions) -> Result<Self, StartError> {
        if options.controllers && binaries.kube_controller_manager.is_none() {
            return Err(StartError::NoControllers);
        }
        let dir = TempDir::new()?;
        let (client_port, peer_port, secure_port) = free_ports()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, secure_port));
        let etcd_url = format!("http://127.0.0.1:{client_port}");

        let etcd_dir = dir.subdir("etcd")?;
        let certificates = etcd_dir.join("certificates");
        fs::create_dir(&certificates)?;
        let credentials = write_certificates(&certificates, address)?;
        let flags = vec![
            format!("--data-dir={}", etcd_dir.join("data").display()),
            format!("--listen-client-urls={etcd_url}"),
            format!("--advertise-client-urls={etcd_url}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
            "--unsafe-no-fsync=true".to_owned(),
        ];
        let etcd = ProcessGuard::spawn(&binaries.etcd, &flags, &etcd_dir)?;
        let mut cluster = Self {
            controllers: None,
            apiserver: None,
            etcd,
            binaries: binaries.clone(),
            options: options.clone(),
            address,
            etcd_address: SocketAddr::from((Ipv4Addr::LOCALHOST, client_port)),
            credentials,
            kubeconfig: certificates.join(KUBECONFIG),
            certificates,
            dir,
        };
        cluster.start_apiserver().await?;
        if let (true, Some(program)) = (options.controllers, &binaries.kube_controller_manager) {
            let subdir = cluster.dir.subdir("kube-controller-manager")?;
            let flags = controller_flags(cluster.kubeconfig(), &cluster.certificates);
            cluster.controllers = Some(ProcessGuard::spawn(program, &flags, &subdir)?);
        }
        Ok(cluster)
    }

    async fn start_apiserver(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + self.options.startup_timeout;
        let subdir = self.dir.subdir("kube-apiserver")?;
        let etcd = format!("http://{}", self.etcd_address);
        let flags = apiserver_flags(&self.certificates, &etcd, self.address.port(), &self.options);
        let apiserver = ProcessGuard::spawn(&self.binaries.kube_apiserver, &flags, &subdir)?;
        let apiserver = self.apiserver.insert(apiserver);
        wait_until_ready(self.address, &self.credentials, apiserver, deadline).await
    }

    /// Compacts all revisions before the current one: lists, continue tokens and watches from them
    /// then expire.
    ///
    /// Compacts etcd and restarts the API server at the same address, because its watch cache
    /// serves older revisions even after etcd is compacted. All connections and watches break.
    ///
    /// # Errors
    ///
    /// If etcd rejects the compaction, or the API server does not start again.
    pub async fn compact(&mut self) -> Result<(), StartError> {
        // Dropping the guard blocks until the process has exited and released its port.
        tokio::task::block_in_place(|| self.apiserver = None);
        etcd::compact(self.etcd_address).await?;
        self.start_apiserver().await
    }

    /// Returns the address of the API server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the client address of etcd, which is served without TLS.
    pub fn etcd_address(&self) -> SocketAddr {
        self.etcd_address
    }

    /// Returns the CA and the admin client certificate.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Returns the path of the admin kubeconfig, which is deleted with the cluster.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the last lines of the API server's log.
    pub fn log_tail(&self) -> String {
        self.apiserver.as_ref().map_or_else(String::new, ProcessGuard::log_tail)
    }
}

const KUBECONFIG: &str = "kubeconfig";

impl Drop for Cluster {
    fn drop(&mut self) {
        // Signal all first, so that they stop in parallel.
        for program in [&mut self.controllers, &mut self.apiserver].into_iter().flatten() {
            program.begin_stop();
        }
        self.etcd.begin_stop();
    }
}

/// Returns the flags that envtest starts kube-apiserver with.
fn apiserver_flags(
    certificates: &Path,
    etcd: &str,
    port: u16,
    options: &UpstreamOptions,
) -> Vec<String> {
    let file = |name: &str| certificates.join(name).display().to_string();
    let mut flags = vec![
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", certificates.display()),
        format!("--client-ca-file={}", file("ca.crt")),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--etcd-servers={etcd}"),
        format!("--secure-port={port}"),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={}", file("sa-signer.crt")),
        format!("--service-account-signing-key-file={}", file("sa-signer.key")),
        format!("--service-cluster-ip-range={}", options.service_cluster_ip_range),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
    ];
    flags.extend(options.apiserver_flags.iter().cloned());
    flags
}

fn controller_flags(kubeconfig: &Path, certificates: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        "--secure-port=0".to_owned(),
        "--use-service-account-credentials=false".to_owned(),
        format!("--root-ca-file={}", certificates.join("ca.crt").display()),
        format!(
            "--service-account-private-key-file={}",
            certificates.join("sa-signer.key").display()
        ),
    ]
}

fn write_certificates(dir: &Path, address: SocketAddr) -> Result<Credentials, StartError> {
    let authority = Authority::generate("evenkeel-upstream", now_unix())?;
    let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))];
    authority.issue_serving(addresses)?.save_to_directory(dir)?;
    let signer = authority.issue_client("sa-signer", None)?;
    let admin = authority.issue_client("admin", Some(MASTERS))?;
    fs::write(dir.join("ca.crt"), authority.certificate_pem())?;
    fs::write(dir.join("sa-signer.crt"), signer.certificate_pem())?;
    let mut key = fs::OpenOptions::new();
    let key = key.write(true).create(true).truncate(true).mode(0o600);
    key.open(dir.join("sa-signer.key"))?.write_all(signer.key_pem().as_bytes())?;
    Kubeconfig {
        context: "upstream",
        server: &format!("https://{address}"),
        authority_pem: &authority.certificate_pem(),
        credential: Credential::Certificate(&admin),
    }
    .write(&dir.join(KUBECONFIG))?;
    Ok(Credentials {
        authority: authority.certificate_pem(),
        certificate: admin.certificate_pem().to_owned(),
        key: admin.key_pem().to_owned(),
    })
}

async fn wait_until_ready(
    address: SocketAddr,
    credentials: &Credentials,
    apiserver: &mut ProcessGuard,
    deadline: Instant,
) -> Result<(), StartError> {
    loop {
        let failed = !apiserver.is_running();
        if failed || Instant::now() >= deadline {
            let log = apiserver.log_tail();
            return Err(StartError::NotReady { program: "kube-apiserver", log });
        }
        if is_ready(address, credentials).await.unwrap_or(false) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn is_ready(address: SocketAddr, credentials: &Credentials) -> Result<bool, ClientError> {
    let client = Client::connect(address, credentials, 1).await?;
    let request = Request::get("/readyz").body(Full::new(Bytes::new()))?;
    Ok(client.send(request).await?.status().is_success())
}

/// Returns three free ports. They are bound together before they are released, so they differ.
fn free_ports() -> io::Result<(u16, u16, u16)> {
    let listeners: [TcpListener; 3] = [bind_free_port()?, bind_free_port()?, bind_free_port()?];
    let port = |at: usize| -> io::Result<u16> { Ok(listeners[at].local_addr()?.port()) };
    Ok((port(0)?, port(1)?, port(2)?))
}

fn bind_free_port() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

#[expect(clippy::disallowed_methods, reason = "certificates for another process need real time")]
fn now_unix() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// A temporary directory. The process guards remove its subdirectories; drop removes the rest.
#[derive(Debug)]
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let name = format!("evenkeel-upstream-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => return result.map(|()| Self(path)),
            }
        }
    }

    fn subdir(&self, name: &str) -> io::Result<PathBuf> {
        let subdir = self.0.join(name);
        fs::create_dir(&subdir)?;
        Ok(subdir)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Fails while a process uses a subdirectory; the guard of that process then removes it.
        let _ = fs::remove_dir(&self.0);
    }
}
