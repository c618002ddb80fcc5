//! Certificates that are requested from the cluster, used over TLS.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestSpec,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a key and a request for a certificate, both in PEM form.
fn certificate_request(user: &str, group: &str, address: Option<IpAddr>) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    params.subject_alt_names.extend(address.map(SanType::IpAddress));
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    (key.serialize_pem(), request)
}

/// Requests a certificate and waits until it is issued; `approve` does so as the administrator.
async fn issue(
    client: &Client,
    admin: &Client,
    name: &str,
    spec: CertificateSigningRequestSpec,
    approve: bool,
) -> String {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let mut request = CertificateSigningRequest { spec, ..Default::default() };
    request.metadata.name = Some(name.to_owned());
    requests.create(&PostParams::default(), &request).await.unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(admin.clone());
    if approve {
        let condition = json!({"type": "Approved", "status": "True", "reason": "Test"});
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        let params = PatchParams::default();
        requests.patch_subresource("approval", name, &params, &patch).await.unwrap();
    }
    let manager = evenkeel::Manager::builder("test")
        .cache(evenkeel::cache::CacheOptions::default().on_demand())
        .build(admin.clone());
    let issued = |request: Option<&CertificateSigningRequest>| {
        request.and_then(|request| request.status.as_ref()?.certificate.as_ref()).is_some()
    };
    let key = evenkeel::Key::cluster(name);
    let found = manager.client().wait_for(&key, issued).timeout(TIMEOUT).await.unwrap().unwrap();
    let certificate = found.status.as_ref().unwrap().certificate.as_ref().unwrap();
    String::from_utf8(certificate.0.clone()).unwrap()
}

fn spec(request: &str, signer: &str, usages: &[&str]) -> CertificateSigningRequestSpec {
    CertificateSigningRequestSpec {
        request: ByteString(request.as_bytes().to_vec()),
        signer_name: signer.to_owned(),
        usages: Some(usages.iter().map(|usage| (*usage).to_owned()).collect()),
        ..Default::default()
    }
}

/// Returns a client that authenticates with a certificate, as its kubeconfig would.
async fn client_with(kubeconfig: &str, certificate: &str, key: &str) -> Client {
    let mut parsed = Kubeconfig::from_yaml(kubeconfig).unwrap();
    for user in &mut parsed.auth_infos {
        let user = user.auth_info.as_mut().unwrap();
        user.client_certificate_data = Some(base64(certificate));
        user.client_key_data = Some(base64(key).into());
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(parsed, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Encodes text as it is in a kubeconfig.
fn base64(text: &str) -> String {
    let encoded = serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap();
    encoded.as_str().unwrap().to_owned()
}

async fn whoami(client: &Client) -> (String, Vec<String>) {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let user = review.unwrap().status.unwrap().user_info.unwrap();
    (user.username.unwrap(), user.groups.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issued_client_certificates_authenticate_their_users() {
    let cluster = Cluster::start().await.unwrap();
    let serving = cluster.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let admin = client_with_admin(serving.kubeconfig()).await;

    let (key, request) = certificate_request("bob", "dev", None);
    let spec_of_bob = spec(&request, "kubernetes.io/kube-apiserver-client", &["client auth"]);
    let certificate = issue(&admin, &admin, "bob", spec_of_bob, true).await;
    let bob = client_with(serving.kubeconfig(), &certificate, &key).await;
    let groups = vec!["dev".to_owned(), "system:authenticated".to_owned()];
    assert_eq!(whoami(&bob).await, ("bob".to_owned(), groups));
    let maps: Api<ConfigMap> = Api::default_namespaced(bob.clone());
    let denied = maps.list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(denied.contains("User \"bob\" cannot list resource \"configmaps\""), "{denied}");

    // Kubelets get theirs without an approval, and may then read their own pods.
    let (key, request) = certificate_request("system:node:n1", "system:nodes", None);
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    let usages = ["digital signature", "client auth"];
    let certificate = issue(&admin, &admin, "n1", spec(&request, signer, &usages), false).await;
    let kubelet = client_with(serving.kubeconfig(), &certificate, &key).await;
    assert_eq!(whoami(&kubelet).await.0, "system:node:n1");
    let pods: Api<Pod> = Api::all(kubelet.clone());
    pods.list(&ListParams::default().fields("spec.nodeName=n1")).await.unwrap();
    pods.list(&ListParams::default()).await.unwrap_err();

    // A serving certificate is requested by the kubelet itself and approved by an administrator.
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (key, request) = certificate_request("system:node:n1", "system:nodes", Some(address));
    let usages = ["digital signature", "server auth"];
    let spec = spec(&request, "kubernetes.io/kubelet-serving", &usages);
    let certificate = issue(&kubelet, &admin, "n1-serving", spec, true).await;
    assert_serves(&certificate, &key, serving.kubeconfig()).await;

    serving.stop().await;
    cluster.stop().await;
}

async fn client_with_admin(kubeconfig: &str) -> Client {
    let parsed = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    Client::try_from(Config::from_custom_kubeconfig(parsed, &options).await.unwrap()).unwrap()
}

/// Serves one TLS connection with a certificate, to a client that trusts the cluster's authority.
async fn assert_serves(certificate: &str, key: &str, kubeconfig: &str) {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap);
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(chain.collect(), key).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let served = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        stream.write_all(b"logs").await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let parsed = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let authority = parsed.clusters[0].cluster.as_ref().unwrap();
    let authority = authority.certificate_authority_data.clone().unwrap();
    let authority: ByteString = serde_json::from_value(json!(authority)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&authority.0).unwrap()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(client));
    let received = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
        let mut stream = connector.connect(name, stream).await.unwrap();
        let mut received = String::new();
        stream.read_to_string(&mut received).await.unwrap();
        received
    };
    let ((), received) = tokio::join!(served, received);
    assert_eq!(received, "logs");
}
