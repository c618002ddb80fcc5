//! The flags of the webhook server, as in kubebuilder.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::webhook::{Certificates, WebhookOptions};

/// The parsed flags.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::manager) struct WebhookArgs {
    pub(super) port: Option<WebhookPort>,
    pub(super) bind_address: Option<IpAddr>,
    pub(super) cert_path: Option<PathBuf>,
    pub(super) cert_name: Option<String>,
    pub(super) cert_key: Option<String>,
}

/// The port of the webhook server; `None` if webhooks are not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WebhookPort(Option<u16>);

impl FromStr for WebhookPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "-1" => Ok(Self(None)),
            text => text.parse().map(|port| Self(Some(port))).map_err(|_| "not a port, and not -1"),
        }
    }
}

impl WebhookArgs {
    /// Applies the flags that are given.
    pub(in crate::manager) fn apply(&self, mut options: WebhookOptions) -> WebhookOptions {
        options = match self.port {
            Some(WebhookPort(Some(port))) => options.port(port),
            Some(WebhookPort(None)) => options.disabled(),
            None => options,
        };
        if let Some(address) = self.bind_address {
            options = options.bind_address(address);
        }
        if let Some(directory) = &self.cert_path {
            let file =
                |name: &Option<String>, default| directory.join(name.as_deref().unwrap_or(default));
            options = options.certificates(Certificates::Files {
                certificate: file(&self.cert_name, "tls.crt"),
                key: file(&self.cert_key, "tls.key"),
            });
        }
        options
    }
}
