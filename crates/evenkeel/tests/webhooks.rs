//! Webhooks of a manager, called over TLS, in real time: by the embedded API server, and by a real
//! kube-apiserver if available.

#![expect(clippy::unwrap_used, reason = "that is how a test fails")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use evenkeel::kube::api::{DeleteParams, PostParams};
use evenkeel::kube::config::Kubeconfig;
use evenkeel::kube::{self, Api};
use evenkeel::manager::RunError;
use evenkeel::prelude::*;
use evenkeel::webhook::{
    AdmissionRequest, Certificates, Conversion, SelfManaged, Validator, Warnings, WebhookOptions,
};
use evenkeel_apiserver::ApiServer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a server may take to notice a configuration.
const NOTICED: Duration = Duration::from_secs(60);

#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Gadget", namespaced)]
struct GadgetSpec {
    color: String,
}

#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1beta1", kind = "Gadget", root = "OldGadget")]
#[kube(namespaced)]
struct OldGadgetSpec {
    colour: String,
}

impl From<OldGadget> for Gadget {
    fn from(old: OldGadget) -> Self {
        Self { metadata: old.metadata, spec: GadgetSpec { color: old.spec.colour } }
    }
}

impl From<Gadget> for OldGadget {
    fn from(new: Gadget) -> Self {
        Self { metadata: new.metadata, spec: OldGadgetSpec { colour: new.spec.color } }
    }
}

type Running = JoinSet<Result<(), RunError>>;

/// Runs a manager until it is stopped.
fn start(manager: &Manager) -> Running {
    let mut running = JoinSet::new();
    running.spawn(manager.clone().run_until(std::future::pending()));
    running
}

/// Waits until a manager has ended.
async fn ended(running: Running) -> Result<(), RunError> {
    running.join_all().await.remove(0)
}

async fn stop(manager: &Manager, running: Running) {
    manager.stop();
    ended(running).await.unwrap();
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// A server that calls webhooks on loopback addresses, with the namespace of the operator.
async fn server() -> ApiServer {
    let server = ApiServer::builder().build().await.unwrap();
    create_namespace(&admin(&server)).await;
    server
}

async fn create_namespace(admin: &kube::Client) {
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "op-system"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
}

fn admin(server: &ApiServer) -> kube::Client {
    kube::Client::new(server.service(), "default")
}

/// Serves on a free port of loopback, and installs itself.
fn options() -> WebhookOptions {
    WebhookOptions::new()
        .bind_address(Ipv4Addr::LOCALHOST.into())
        .port(0)
        .url("https://127.0.0.1:0")
        .service_namespace("op-system")
        .install()
}

fn manager(server: &ApiServer, options: WebhookOptions) -> Manager {
    manager_of(&admin(server), options)
}

fn manager_of(admin: &kube::Client, options: WebhookOptions) -> Manager {
    Manager::builder("op").webhooks(options).build(admin.clone())
}

fn maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::namespaced(admin(server), "default")
}

fn immutable(map: &mut ConfigMap, _: &AdmissionRequest) -> Result<()> {
    map.immutable.get_or_insert(true);
    Ok(())
}

fn named(map: &ConfigMap, request: &AdmissionRequest) -> Result<Warnings> {
    match map.metadata.name.as_deref() {
        Some("bad") => Err(format!("{} may not create this", user(request)).into()),
        _ => Ok(Warnings::new()),
    }
}

fn user(request: &AdmissionRequest) -> &str {
    request.user_info.username.as_deref().unwrap_or_default()
}

#[tokio::test]
async fn webhooks_are_called_over_tls_with_certificates_of_their_own() {
    let server = server().await;
    called_over_tls(&admin(&server)).await;
}

async fn called_over_tls(admin: &kube::Client) {
    let manager = manager_of(admin, options());
    manager.webhook::<ConfigMap>().defaulter(immutable).validator(named).register().unwrap();
    assert!(!manager.readiness().is_ready());
    let running = start(&manager);
    manager.wait_until_synced().await.unwrap();
    assert!(manager.readiness().is_ready());

    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "default");
    let params = PostParams::default();
    // A server notices the configurations with a delay.
    let created = timeout(NOTICED, async {
        for number in 0.. {
            let created = maps.create(&params, &map(&format!("good-{number}"))).await.unwrap();
            if created.immutable == Some(true) {
                break;
            }
        }
    });
    created.await.expect("the defaulter is called");
    let denied = timeout(NOTICED, async {
        loop {
            match maps.create(&params, &map("bad")).await {
                Err(denied) => break denied.to_string(),
                Ok(_) => drop(maps.delete("bad", &DeleteParams::default()).await.unwrap()),
            }
        }
    });
    let denied = denied.await.expect("the validator is called");
    assert!(denied.contains("admission webhook \"vconfigmap-v1.core.k8s.io\" denied"), "{denied}");
    assert!(denied.contains("may not create this"), "{denied}");

    // Objects of the operator's own namespace are not sent to it.
    let own: Api<ConfigMap> = Api::namespaced(admin.clone(), "op-system");
    own.create(&params, &map("bad")).await.unwrap();
    stop(&manager, running).await;
    let refused = maps.create(&params, &map("late")).await.unwrap_err().to_string();
    assert!(refused.contains("failed calling webhook"), "{refused}");
}

#[tokio::test]
async fn conversion_webhooks_serve_before_the_caches_of_the_same_manager_sync() {
    let server = server().await;
    converts_for_its_own_caches(&admin(&server)).await;
}

async fn converts_for_its_own_caches(admin: &kube::Client) {
    let conversion = || Conversion::hub::<Gadget>().spoke::<OldGadget>();
    let manager = manager_of(admin, options());
    manager.conversion(conversion()).unwrap();
    // Stored in the version of the spoke, so that the list of the cache needs the webhook.
    let mut crd = conversion().crd().unwrap();
    for version in &mut crd.spec.versions {
        version.storage = version.name == "v1beta1";
    }
    manager.client().install_crd_from(&crd).await.unwrap();
    let old = json!({"apiVersion": "example.com/v1beta1", "kind": "Gadget",
        "metadata": {"name": "a"}, "spec": {"colour": "red"}});
    let olds: Api<OldGadget> = Api::namespaced(admin.clone(), "default");
    olds.create(&PostParams::default(), &serde_json::from_value(old).unwrap()).await.unwrap();

    manager.caches::<Gadget>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    manager.wait_until_synced().await.unwrap();
    let cached = manager.client().get::<Gadget>(&Key::namespaced("default", "a")).await.unwrap();
    assert_eq!(cached.unwrap().spec.color, "red");
    stop(&manager, running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_kube_apiserver_calls_the_webhooks() {
    let binaries = match evenkeel_upstream::locate() {
        Ok(binaries) => binaries,
        Err(reason) => {
            let what = "scenarios of webhooks that a real kube-apiserver calls";
            return evenkeel_upstream::report_skipped(2, what, reason);
        }
    };
    let options = evenkeel_upstream::UpstreamOptions::default();
    let cluster = evenkeel_upstream::Cluster::start(&binaries, &options).await.unwrap();
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    config.default_retry = false;
    let admin = kube::Client::try_from(config).unwrap();
    create_namespace(&admin).await;
    converts_for_its_own_caches(&admin).await;
    called_over_tls(&admin).await;
}

/// Waits within a validation until it is released.
#[derive(Clone)]
struct Slow {
    entered: Arc<Semaphore>,
    release: Arc<Semaphore>,
}

impl Validator<ConfigMap> for Slow {
    async fn validate_create(&self, _: &ConfigMap, _: &AdmissionRequest) -> Result<Warnings> {
        self.entered.add_permits(1);
        let _released = self.release.acquire().await?;
        Ok(Warnings::new())
    }
}

#[tokio::test]
async fn a_stopping_manager_answers_the_reviews_in_flight() {
    let server = server().await;
    let manager = manager(&server, options());
    let slow = Slow { entered: Arc::new(Semaphore::new(0)), release: Arc::new(Semaphore::new(0)) };
    manager.webhook::<ConfigMap>().validator(slow.clone()).register().unwrap();
    let running = start(&manager);
    manager.wait_until_synced().await.unwrap();
    let api = maps(&server);
    let mut creates = JoinSet::new();
    creates.spawn(async move { api.create(&PostParams::default(), &map("a")).await });
    slow.entered.acquire().await.unwrap().forget();
    manager.stop();
    slow.release.add_permits(1);
    creates.join_next().await.unwrap().unwrap().unwrap();
    ended(running).await.unwrap();
}

#[tokio::test]
async fn a_port_in_use_ends_the_manager() {
    let server = server().await;
    let taken = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let manager = manager(&server, options().port(port));
    manager.webhook::<ConfigMap>().validator(named).register().unwrap();
    let error = ended(start(&manager)).await.unwrap_err();
    let error = evenkeel::chain(&error);
    assert!(error.starts_with("webhook server failed"), "{error}");
}

/// Without a certificate every connection is refused in the handshake; with one, plain HTTP is.
#[tokio::test]
async fn the_port_answers_only_tls() {
    let server = server().await;
    let manager = manager(&server, options());
    manager.webhook::<ConfigMap>().validator(named).register().unwrap();
    let running = start(&manager);
    manager.wait_until_synced().await.unwrap();
    let address: SocketAddr = manager.webhook_service().local_addr().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"POST /validate--v1-configmap HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, request).await.unwrap();
    let mut answer = Vec::new();
    // A TLS alert or a closed connection.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    stop(&manager, running).await;
}

/// Rotates the certificate authority while objects are created, in real time.
/// `cargo xtask campaign rotations 0..100` runs more rotations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_admission_fails_while_certificates_rotate() {
    let seeds = std::env::var("EVENKEEL_SEEDS").ok();
    let range = seeds.as_deref().and_then(|seeds| seeds.split_once(".."));
    let bounds = range.map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()));
    let rotations = bounds.map_or(1, |(from, to): (usize, usize)| to - from);

    let server = Arc::new(server().await);
    let mut certificates = SelfManaged::default();
    certificates.authority_lifetime = Duration::from_secs(12);
    certificates.certificate_lifetime = Duration::from_secs(2);
    certificates.propagation = Duration::from_secs(1);
    certificates.interval = Duration::from_millis(100);
    let certificates = Certificates::SelfManaged(certificates);
    let manager = manager(&server, options().certificates(certificates));
    manager.webhook::<ConfigMap>().defaulter(immutable).validator(named).register().unwrap();
    let running = start(&manager);
    manager.wait_until_synced().await.unwrap();

    let created = Arc::new(AtomicUsize::new(0));
    let mut load = JoinSet::new();
    for worker in 0..2 {
        let (server, created) = (server.clone(), created.clone());
        load.spawn(async move {
            for index in 0.. {
                let name = format!("map-{worker}-{index}");
                let found = maps(&server).create(&PostParams::default(), &map(&name)).await;
                assert_eq!(found.unwrap().immutable, Some(true), "{name}");
                maps(&server).delete(&name, &DeleteParams::default()).await.unwrap();
                created.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let secrets: Api<Secret> = Api::namespaced(admin(&server), "op-system");
    let (mut signers, mut last) = (0, None);
    while signers <= rotations {
        let secret = secrets.get("op-webhook-ca").await.unwrap();
        let signer = secret.data.unwrap()["signer.crt"].clone();
        if last.as_ref() != Some(&signer) {
            signers += 1;
            last = Some(signer);
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
            Some(ended) = load.join_next() => ended.unwrap(),
        }
    }
    load.shutdown().await;
    let created = created.load(Ordering::Relaxed);
    println!("{rotations} rotations, {created} objects created and admitted");
    assert!(created > rotations, "there was no load");
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(admin(&server));
    let found = configurations.get("op-validating-webhook-configuration").await.unwrap();
    assert!(found.webhooks.unwrap()[0].client_config.ca_bundle.is_some());
    stop(&manager, running).await;
}
