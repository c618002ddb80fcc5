//! A serving certificate in a Secret of type `kubernetes.io/tls`, such as one of cert-manager.

use std::time::Duration;

use evenkeel_pki::certificates::KeyedCertificate;
use evenkeel_pki::tls::ServingCertificate;
use k8s_openapi::api::core::v1::Secret;

use super::Environment;
use crate::error::{Result, chain};

const INTERVAL: Duration = Duration::from_secs(10);

pub(super) async fn keep(
    environment: &Environment,
    serving: &ServingCertificate,
    attempted: impl Fn(),
) -> Result<()> {
    let mut version = None;
    loop {
        if let Err(error) = update(environment, serving, &mut version).await {
            let secret = &environment.secret;
            tracing::error!(%secret, error = chain(&*error), "no certificate for webhooks");
        }
        attempted();
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Serves with the certificate in the Secret, if its version is another one.
async fn update(
    environment: &Environment,
    serving: &ServingCertificate,
    version: &mut Option<String>,
) -> Result<()> {
    let Environment { client, secret: key, .. } = environment;
    let secret = client.live().get::<Secret>(key).await?.ok_or("the Secret does not exist")?;
    if version.is_some() && *version == secret.metadata.resource_version {
        return Ok(());
    }
    let data = secret.data.unwrap_or_default();
    let text = |name: &str| -> Result<String> {
        let value = data.get(name).ok_or_else(|| format!("the Secret has no {name}"))?;
        Ok(String::from_utf8(value.0.clone())?)
    };
    serving.set(&KeyedCertificate::from_pem(text("tls.crt")?, text("tls.key")?)?)?;
    *version = secret.metadata.resource_version;
    Ok(())
}
