//! Certificates against an API server in process, in virtual time.

use std::collections::BTreeMap;

use evenkeel_apiserver::ApiServer;
use evenkeel_pki::tls::provider;
use evenkeel_pki::x509;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Client as KubeClient;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::Manager;
use crate::webhook::endpoint::Endpoint;

const CONFIGURATION: &str = "op-validating-webhook-configuration";

/// A server with the namespace of the operator and a webhook configuration.
struct TestServer {
    server: ApiServer,
    clock: Clock,
}

impl TestServer {
    async fn new() -> Self {
        let server = ApiServer::builder().seed(1).build().await.unwrap();
        let clock = Clock::starting_at(Timestamp::from_second(1_800_000_000).unwrap());
        let test_server = Self { server, clock };
        let namespace = json!({"metadata": {"name": "op-system"}});
        let namespaces: Api<Namespace> = Api::all(test_server.admin());
        let namespace = serde_json::from_value(namespace).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let hook = |name: &str, namespace: &str| {
            json!({
                "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"service": {"namespace": namespace, "name": "hooks"}},
                "rules": [{
                    "apiGroups": ["example.com"], "apiVersions": ["v1"],
                    "resources": ["widgets"], "operations": ["CREATE"],
                }],
            })
        };
        let object = json!({
            "metadata": {"name": CONFIGURATION},
            "webhooks": [hook("own.example.com", "op-system"), hook("other.example.com", "x")],
        });
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(test_server.admin());
        let object = serde_json::from_value(object).unwrap();
        configurations.create(&PostParams::default(), &object).await.unwrap();
        test_server
    }

    fn admin(&self) -> KubeClient {
        KubeClient::new(self.server.service(), "default")
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.admin(), "op-system")
    }

    /// Returns a replica.
    fn replica(&self, seed: u64, options: &SelfManaged) -> Replica {
        let manager = Manager::builder("op").seed(seed).build(self.admin());
        let environment = Environment {
            client: manager.client().clone(),
            clock: self.clock.clone(),
            random: Random::new(seed),
            metrics: Arc::new(Metrics::new()),
            secret: Key::namespaced("op-system", "op-webhook-ca"),
            names: vec!["hooks.op-system.svc".to_owned()],
        };
        let serving = Arc::new(ServingCertificate::default());
        Replica { keeper: Keeper::new(options.clone(), environment), serving }
    }

    /// Returns the bundles of the own and of the other webhook.
    async fn bundles(&self) -> (String, Option<String>) {
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(self.admin());
        let found = configurations.get(CONFIGURATION).await.unwrap();
        let mut bundles = found.webhooks.unwrap().into_iter().map(|webhook| {
            let bundle = webhook.client_config.ca_bundle;
            bundle.map(|bundle| String::from_utf8(bundle.0).unwrap())
        });
        (bundles.next().unwrap().unwrap_or_default(), bundles.next().unwrap())
    }

    fn now(&self) -> u64 {
        now_unix(&self.clock)
    }
}

struct Replica {
    keeper: Keeper,
    serving: Arc<ServingCertificate>,
}

impl Replica {
    async fn check(&mut self) -> Duration {
        let (namespace, name) = ("op-system".to_owned(), "hooks".to_owned());
        let endpoint = Endpoint::Service { namespace, name, port: 443 };
        let target = Target::validating(CONFIGURATION.to_owned(), endpoint);
        self.keeper.check(&[target], &self.serving).await
    }
}

/// Verifies a serving certificate as an API server does; the error is the reason.
fn verify(bundle: &str, leaf: &CertificateDer<'_>, now: u64) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let builder = WebPkiServerVerifier::builder_with_provider(roots.into(), provider());
    let verifier = builder.build().map_err(|error| error.to_string())?;
    let name = ServerName::try_from("hooks.op-system.svc").unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    let verified = verifier.verify_server_cert(leaf, &[], &name, &[], now);
    verified.map(drop).map_err(|error| error.to_string())
}

fn options() -> SelfManaged {
    SelfManaged {
        authority_lifetime: Duration::from_secs(3600),
        certificate_lifetime: Duration::from_secs(600),
        propagation: Duration::from_secs(60),
        interval: Duration::from_secs(300),
    }
}

fn certificates(bundle: &str) -> usize {
    bundle.matches("BEGIN CERTIFICATE").count()
}

#[tokio::test(start_paused = true)]
async fn replicas_share_one_authority_and_publish_it_for_their_own_webhooks() {
    let test_server = TestServer::new().await;
    let mut replicas: Vec<Replica> =
        (0..3).map(|seed| test_server.replica(seed, &options())).collect();
    let mut tasks = JoinSet::new();
    for mut replica in replicas.drain(..) {
        tasks.spawn(async move {
            replica.check().await;
            replica
        });
    }
    let replicas = tasks.join_all().await;
    let (bundle, other) = test_server.bundles().await;
    assert_eq!(certificates(&bundle), 1);
    assert_eq!(other, None, "the webhook of another operator is not touched");
    for replica in &replicas {
        verify(&bundle, &replica.serving.current().unwrap(), test_server.now()).unwrap();
    }
    let secret = test_server.secrets().get("op-webhook-ca").await.unwrap();
    assert_eq!(String::from_utf8(secret.data.unwrap()["ca.crt"].0.clone()).unwrap(), bundle);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_or_emptied_secret_is_restored_by_a_replica_that_has_it() {
    let test_server = TestServer::new().await;
    let mut replica = test_server.replica(1, &options());
    replica.check().await;
    let (bundle, _) = test_server.bundles().await;
    test_server.secrets().delete("op-webhook-ca", &DeleteParams::default()).await.unwrap();
    replica.check().await;
    assert_eq!(test_server.bundles().await.0, bundle);
    let empty = json!([{"op": "remove", "path": "/data"}]);
    let patch = Patch::Json::<()>(serde_json::from_value(empty).unwrap());
    test_server.secrets().patch("op-webhook-ca", &PatchParams::default(), &patch).await.unwrap();
    replica.check().await;
    let secret = test_server.secrets().get("op-webhook-ca").await.unwrap();
    assert_eq!(String::from_utf8(secret.data.unwrap()["ca.crt"].0.clone()).unwrap(), bundle);
}

#[tokio::test(start_paused = true)]
async fn a_removed_ca_bundle_is_set_again() {
    let test_server = TestServer::new().await;
    let mut replica = test_server.replica(1, &options());
    replica.check().await;
    let (bundle, _) = test_server.bundles().await;
    let remove = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let patch = Patch::Json::<()>(serde_json::from_value(remove).unwrap());
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(test_server.admin());
    configurations.patch(CONFIGURATION, &PatchParams::default(), &patch).await.unwrap();
    replica.check().await;
    assert_eq!(test_server.bundles().await.0, bundle);
}

/// Returns the number of rotations: ten per seed of a campaign.
fn rotations() -> usize {
    let Ok(seeds) = std::env::var("EVENKEEL_SEEDS") else { return 5 };
    let (from, to) = seeds.split_once("..").unwrap();
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
    10 * (to - from)
}

/// Rotations by two replicas. An API server may still use a bundle that was replaced less than
/// the propagation time ago, and at every moment has to accept the certificates of all replicas.
/// `cargo xtask campaign rotations 0..100` runs 1,000 rotations.
#[tokio::test(start_paused = true)]
async fn every_certificate_is_accepted_while_authorities_rotate() {
    let total = rotations();
    let (test_server, options) = (TestServer::new().await, options());
    let mut replicas: Vec<Replica> =
        (0..2).map(|seed| test_server.replica(seed, &options)).collect();
    let mut due = vec![Instant::now(); replicas.len()];
    let (mut bundles, mut verified) = (Vec::<(Instant, String)>::new(), BTreeMap::new());
    let (mut rotations, mut last_single) = (0, String::new());
    let begun = Instant::now();
    while rotations < total {
        let index = usize::from(due[1] < due[0]);
        tokio::time::sleep_until(due[index]).await;
        due[index] = Instant::now() + replicas[index].check().await;

        let (bundle, _) = test_server.bundles().await;
        let now = Instant::now();
        if bundles.last().is_none_or(|(_, last)| *last != bundle) {
            if let Some((_, last)) = bundles.last() {
                let (before, after) = (certificates(last), certificates(&bundle));
                assert!(before + after == 3, "old and new authority overlap: {before} → {after}");
            }
            if certificates(&bundle) == 1 {
                rotations += usize::from(!last_single.is_empty());
                last_single.clone_from(&bundle);
            }
            bundles.push((now, bundle));
        }
        // The last bundle that was replaced long enough ago is no longer used.
        while bundles.get(1).is_some_and(|(since, _)| now - *since >= options.propagation) {
            bundles.remove(0);
        }
        for replica in &replicas {
            let Some(leaf) = replica.serving.current() else { continue };
            let end = *x509::validity(&leaf).unwrap().end();
            assert!(test_server.now() < end, "a serving certificate expired");
            for (_, bundle) in &bundles {
                let result = verified.entry((leaf.to_vec(), bundle.clone())).or_insert_with(|| {
                    let authorities = CertificateDer::pem_slice_iter(bundle.as_bytes());
                    let ends = authorities.map(|one| *x509::validity(&one.unwrap()).unwrap().end());
                    assert!(ends.max().unwrap() > end, "authority and certificate end together");
                    verify(bundle, &leaf, test_server.now())
                });
                assert_eq!(*result, Ok(()), "after {rotations} rotations");
            }
        }
        verified.retain(|(_, bundle), _| bundles.iter().any(|(_, used)| used == bundle));
    }
    println!("{rotations} rotations in {:?} of virtual time", Instant::now() - begun);
}
