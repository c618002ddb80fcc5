//! Options of the webhook server.

use std::net::IpAddr;
use std::path::PathBuf;

use super::Certificates;

/// The default port, as in controller-runtime.
const PORT: u16 = 9443;

/// The port of the Service.
const SERVICE_PORT: u16 = 443;

/// How the webhooks of a manager are served; see
/// [`ManagerBuilder::webhooks`](crate::manager::ManagerBuilder::webhooks).
///
/// ```
/// use evenkeel::Manager;
/// use evenkeel::webhook::{Certificates, WebhookOptions};
///
/// let options = WebhookOptions::new()
///     .port(9443)
///     .certificates(Certificates::directory("/etc/webhook/certs"));
/// let builder = Manager::builder("greeter").webhooks(options);
/// # let _ = builder;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct WebhookOptions {
    pub(super) serving: Serving,
    pub(super) bind_address: Option<IpAddr>,
    pub(super) port: u16,
    pub(super) certificates: Certificates,
    pub(super) client_authority: Option<PathBuf>,
    pub(super) service_name: Option<String>,
    pub(super) service_namespace: Option<String>,
    pub(super) service_port: u16,
    pub(super) url: Option<String>,
    pub(super) install: bool,
}

/// Where webhooks are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serving {
    Tls,
    InProcess,
    Disabled,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            serving: Serving::Tls,
            bind_address: None,
            port: PORT,
            certificates: Certificates::default(),
            client_authority: None,
            service_name: None,
            service_namespace: None,
            service_port: SERVICE_PORT,
            url: None,
            install: false,
        }
    }
}

impl WebhookOptions {
    /// Returns the defaults: port 9443 on all addresses, certificates of the operator's own
    /// authority.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the port; 0 takes any free port.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the address to listen on; all addresses unless set.
    pub fn bind_address(mut self, address: IpAddr) -> Self {
        self.bind_address = Some(address);
        self
    }

    /// Sets where the serving certificate comes from.
    pub fn certificates(mut self, certificates: Certificates) -> Self {
        self.certificates = certificates;
        self
    }

    /// Requires clients to have a certificate of one of the authorities in this PEM file, such as
    /// the one of the API server's client certificate.
    pub fn client_authority(mut self, file: impl Into<PathBuf>) -> Self {
        self.client_authority = Some(file.into());
        self
    }

    /// Sets the name of the Service in front of the webhook server; `<manager>-webhook-service`
    /// unless set.
    pub fn service_name(mut self, name: &str) -> Self {
        self.service_name = Some(name.to_owned());
        self
    }

    /// Sets the namespace of the Service and of the Secret with the certificate authority; that of
    /// the pod, or of the kubeconfig context, unless set.
    pub fn service_namespace(mut self, namespace: &str) -> Self {
        self.service_namespace = Some(namespace.to_owned());
        self
    }

    /// Sets the port of the Service; 443 unless set.
    pub fn service_port(mut self, port: u16) -> Self {
        self.service_port = port;
        self
    }

    /// Makes API servers call a URL instead of a Service, for an operator that runs outside of the
    /// cluster: `https://192.0.2.1:9443`. If the port is 0, it is that of the listener.
    pub fn url(mut self, url: &str) -> Self {
        self.url = Some(url.trim_end_matches('/').to_owned());
        self
    }

    /// Makes the manager create or replace the webhook configurations and the conversion stanza of
    /// CRDs at its start, for development and tests. It needs permissions that an operator should
    /// not have in production.
    pub fn install(mut self) -> Self {
        self.install = true;
        self
    }

    /// Serves nothing over the network: the API server runs in the same process and calls
    /// [`Manager::webhook_service`](crate::Manager::webhook_service).
    pub fn in_process(mut self) -> Self {
        self.serving = Serving::InProcess;
        self
    }

    /// Serves no webhooks.
    pub fn disabled(mut self) -> Self {
        self.serving = Serving::Disabled;
        self
    }
}
