//! Certificates that are renewed after two thirds of their life: the time of the renewal follows from
//! the Secret, not from memory.

use std::collections::BTreeMap;

use evenkeel::BoxError;
use evenkeel::prelude::*;
use evenkeel_sim::{Effect, Step};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::Expression;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const OWN: &str = "sim.test/certificate";
const ISSUED: &str = "sim.test/issued";
const HOST: &str = "sim.test/host";

/// A certificate in a Secret.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "sim.test", version = "v1", kind = "Certificate", namespaced)]
#[kube(status = "CertificateStatus")]
#[serde(rename_all = "camelCase")]
struct CertificateSpec {
    host: String,
    #[schemars(range(min = 600))]
    seconds: i32,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct CertificateStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
}

struct Certificates;

impl Reconciler for Certificates {
    type Object = Certificate;

    async fn reconcile(&self, cx: &Context<Certificate>) -> Result<Action> {
        let Some(certificate) = cx.object() else { return Ok(Action::done()) };
        let now = cx.clock().now();
        let found = cx.client().get::<Secret>(cx.key()).await?;
        let annotation = |name: &str| found.as_ref()?.annotations().get(name).cloned();
        let issued = annotation(ISSUED).and_then(|text| text.parse().ok());
        let life = i64::from(certificate.spec.seconds);
        let age = issued.map(|issued| now.duration_since(issued).as_secs());
        let current = annotation(HOST).as_ref() == Some(&certificate.spec.host);
        let left = age.map_or(0, |age| life * 2 / 3 - age);
        let issued = issued.filter(|_| current && left > 0).unwrap_or(now);
        let left = if issued == now { life * 2 / 3 } else { left };
        let mut secret = Secret::default();
        secret.metadata.name = Some(certificate.name_any());
        secret.metadata.labels = Some([(OWN.to_owned(), "true".to_owned())].into());
        secret.metadata.annotations = Some(BTreeMap::from([
            (ISSUED.to_owned(), issued.to_string()),
            (HOST.to_owned(), certificate.spec.host.clone()),
        ]));
        let content = content(&certificate.spec.host);
        secret.data = Some([("tls.crt".to_owned(), ByteString(content.into_bytes()))].into());
        cx.apply_owned(secret).force().await?;
        let ready = Condition::new("Ready", true, "Issued", "the certificate is valid");
        cx.status(&certificate).condition(ready).write().await?;
        Ok(Action::requeue_after(Duration::from_secs(u64::try_from(left)?)))
    }
}

/// Returns the certificate of a host. That of an issuer is another one each time, but a simulation
/// compares what does not depend on the number of renewals.
fn content(host: &str) -> String {
    format!("certificate of {host}")
}

#[test]
fn certificate_survives_faults() {
    evenkeel_sim::operator("certificate", |manager| -> Result<(), BoxError> {
        // Only own Secrets are in memory.
        let own = TypeOptions::new().labels(Expression::Exists(OWN.to_owned()).into());
        manager.caches::<Secret>(own)?;
        manager.controller(Certificates).owns::<Secret>().register()?;
        Ok(())
    })
    .install::<Certificate>()
    .sample(
        "{apiVersion: sim.test/v1, kind: Certificate, metadata: {name: shop}, \
         spec: {host: shop.example.com, seconds: 600}}",
    )
    .step(Step::Wait(450))
    .sample("{apiVersion: v1, kind: ConfigMap, metadata: {name: user}}")
    .patch::<Certificate>("shop", json!({"spec": {"host": "www.example.com"}}))
    .without_fault(Effect::Poison(0), "a renewal may fall into the time in which nothing is due")
    .expect(expected)
    .invariant("a user gets a certificate that is not to be renewed", is_renewed)
    .check();
}

/// Returns a certificate with its Secret.
fn expected(certificate: &Certificate, _: &[&Value]) -> [Value; 2] {
    let name = certificate.name_any();
    let metadata = json!({"name": name, "labels": {OWN: "true"},
        "annotations": {HOST: certificate.spec.host}});
    [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}),
        json!({"apiVersion": "sim.test/v1", "kind": "Certificate", "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    ]
}

/// Checks the content of the Secret, and its age when its user was created.
fn is_renewed(objects: &[&Value]) -> Result<(), String> {
    let find = |kind: &str, name: &str| {
        objects.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name)
    };
    let Some(secret) = find("Secret", "shop") else { return Ok(()) };
    let annotation = |name: &str| secret["metadata"]["annotations"][name].as_str().unwrap_or("");
    let content = content(annotation(HOST));
    if secret["data"]["tls.crt"] != json!(ByteString(content.clone().into_bytes())) {
        return Err(format!("the Secret is not {content}"));
    }
    let time = |text: &str| text.parse::<Timestamp>().map_err(|error| error.to_string());
    let Some(user) = find("ConfigMap", "user") else { return Ok(()) };
    let created = time(user["metadata"]["creationTimestamp"].as_str().unwrap_or(""))?;
    match created.duration_since(time(annotation(ISSUED))?).as_secs() {
        age if age <= 400 => Ok(()),
        age => Err(format!("the certificate is {age} s old")),
    }
}
