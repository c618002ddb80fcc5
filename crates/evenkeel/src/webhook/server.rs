//! Serves the webhooks of a manager over TLS.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_pki::certificates::load_bundle;
use evenkeel_pki::tls::ServingCertificate;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tokio_util::sync::CancellationToken;

use super::Certificates;
use super::certificates::{self, Environment};
use super::probe;
use super::registry::Webhooks;
use crate::client::Client;
use crate::clock::Clock;
use crate::error::{Result, chain};
use crate::key::Key;
use crate::random::Random;
use crate::serve::{Server, Tls};

/// The interval of connecting to itself.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// The interval of attempts that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the server until `stop`, then drains it.
///
/// # Errors
/// When the address cannot be bound, or the files of the certificate cannot be read.
pub(crate) async fn run(
    webhooks: Arc<Webhooks>,
    client: Client,
    clock: Clock,
    random: Random,
    stop: CancellationToken,
) -> Result<()> {
    let certificate = Arc::new(ServingCertificate::default());
    let clients = match &webhooks.options.client_authority {
        Some(file) => load_bundle(file)?,
        None => Vec::new(),
    };
    let tls = Tls::new(certificate.clone(), &clients, &clock)?;
    let address = webhooks.options.bind_address.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
    let address = SocketAddr::new(address, webhooks.options.port);
    let server = Server::bind(address, Some(tls)).await?;
    let address = server.local_addr();
    tracing::info!(%address, "serving webhooks");
    webhooks.state.send_modify(|state| state.address = Some(address));

    let (names, metrics) = (webhooks.endpoint().names(), webhooks.metrics.clone());
    let secret = Key::namespaced(&webhooks.namespace, &webhooks.secret_name());
    let environment = Environment { client: client.clone(), clock, random, metrics, secret, names };
    let keep = async {
        while webhooks.options.install
            && let Err(error) = install(&webhooks, &client).await
        {
            tracing::error!(error = chain(&*error), "failed to install the webhooks");
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        let source = webhooks.options.certificates.clone();
        let attempted = || webhooks.state.send_modify(|state| state.attempted = true);
        certificates::keep(source, environment, &certificate, || webhooks.targets(), attempted)
            .await
    };
    let probe = async {
        webhooks.wait_until_attempted().await;
        loop {
            let problem = probe::connect(address, &certificate).await.err();
            let delay = if problem.is_some() { RETRY_INTERVAL } else { PROBE_INTERVAL };
            webhooks.state.send_modify(|state| state.problem = problem);
            tokio::time::sleep(delay).await;
        }
    };
    let result = tokio::select! {
        biased;
        // Certificates are kept up to date while the server drains.
        _ = server.run(webhooks.clone(), stop.cancelled()) => Ok(()),
        failed = keep => failed,
        () = probe => Ok(()),
    };
    webhooks.state.send_modify(|state| state.problem = Some("stopped".to_owned()));
    result
}

/// Creates or replaces the webhook configurations and the conversion stanzas.
async fn install(webhooks: &Webhooks, client: &Client) -> Result<()> {
    let configurations = webhooks.configurations();
    if let Some(mutating) = &configurations.mutating {
        client.apply(mutating).force().await?;
    }
    if let Some(validating) = &configurations.validating {
        client.apply(validating).force().await?;
    }
    for conversion in webhooks.conversions.all() {
        let key = Key::cluster(&conversion.crd_name());
        let found = client.live().get::<CustomResourceDefinition>(&key).await?;
        let Some(mut crd) = found else { continue };
        webhooks.set_conversion(&mut crd);
        client.update(&crd).await?;
    }
    Ok(())
}

impl Webhooks {
    /// Returns the name of the Secret with the certificate authority or the certificate.
    pub(super) fn secret_name(&self) -> String {
        match &self.options.certificates {
            Certificates::Secret(name) => name.clone(),
            _ => format!("{}-webhook-ca", self.manager()),
        }
    }
}
