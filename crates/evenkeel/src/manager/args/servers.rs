//! The flags of the servers of metrics and health, as in kubebuilder.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use crate::manager::bind::BindAddress;
use crate::manager::servers::{CertificateFiles, ServerOptions};

/// The ports in a pod, unless set otherwise.
const METRICS_PORT: u16 = 8443;
const HEALTH_PORT: u16 = 8081;

/// The flags that were given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::manager) struct ServerArgs {
    pub(super) metrics_bind_address: Option<BindAddress>,
    pub(super) metrics_secure: Option<bool>,
    pub(super) metrics_cert_path: Option<PathBuf>,
    pub(super) metrics_cert_name: Option<String>,
    pub(super) metrics_cert_key: Option<String>,
    pub(super) health_probe_bind_address: Option<BindAddress>,
}

impl ServerArgs {
    /// Overrides the options of the program. In a pod, with its service account, both servers have a
    /// default address; elsewhere several operators may run side by side.
    pub(in crate::manager) fn apply(self, mut options: ServerOptions, pod: bool) -> ServerOptions {
        let default =
            |port: u16| pod.then(|| BindAddress::At((Ipv6Addr::UNSPECIFIED, port).into()));
        let metrics = self.metrics_bind_address.or(options.metrics);
        options.metrics = metrics.or_else(|| default(METRICS_PORT));
        let health = self.health_probe_bind_address.or(options.health);
        options.health = health.or_else(|| default(HEALTH_PORT));
        options.metrics_secure = self.metrics_secure.or(options.metrics_secure);
        if let Some(directory) = self.metrics_cert_path {
            let file = |name: Option<String>, default: &str| {
                directory.join(name.as_deref().unwrap_or(default))
            };
            options.metrics_certificate = Some(CertificateFiles {
                certificate: file(self.metrics_cert_name, "tls.crt"),
                key: file(self.metrics_cert_key, "tls.key"),
            });
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_defaults_in_a_pod_only() {
        let addresses = |args: ServerArgs, options: ServerOptions, pod: bool| {
            let options = args.apply(options, pod);
            [options.metrics, options.health].map(|it| it.map(|it| it.to_string()))
        };
        let text = |text: &str| Some(text.to_owned());
        let none = ServerOptions::default;
        assert_eq!(addresses(ServerArgs::default(), none(), false), [None, None]);
        let both = [text("[::]:8443"), text("[::]:8081")];
        assert_eq!(addresses(ServerArgs::default(), none(), true), both);
        let program = ServerOptions {
            metrics: Some(BindAddress::Off),
            health: Some(([127, 0, 0, 1], 1).into()),
            ..none()
        };
        let kept = [text("0"), text("127.0.0.1:1")];
        assert_eq!(addresses(ServerArgs::default(), program.clone(), true), kept);
        let args = ServerArgs {
            metrics_bind_address: Some(([127, 0, 0, 1], 2).into()),
            health_probe_bind_address: Some(BindAddress::Off),
            ..ServerArgs::default()
        };
        assert_eq!(addresses(args, program, true), [text("127.0.0.1:2"), text("0")]);
    }
}
