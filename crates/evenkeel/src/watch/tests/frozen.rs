//! A proxy that stops forwarding without closing connections.

use evenkeel_apiserver::ApiServer;
use evenkeel_types::watch;
use kube::{Api, Client};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, tcp};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::*;
use crate::connect::{self, Observer};

/// A sink that sends the names it receives.
struct Names(mpsc::Sender<String>);

impl Names {
    fn report(&self, raw: &[u8]) {
        let object: ConfigMap = serde_json::from_slice(raw).unwrap();
        self.0.try_send(object.metadata.name.unwrap()).unwrap();
    }
}

impl Sink for Names {
    fn begin(&mut self, _: bool) {}
    fn listed(&mut self, raw: &[u8]) {
        self.report(raw);
    }
    fn unlisted(&mut self, _: &[u8]) {}
    fn commit(&mut self, _: &str) {}
    fn abandon(&mut self) {}
    fn changed(&mut self, raw: &[u8]) {
        self.report(raw);
    }
    fn deleted(&mut self, _: &[u8]) {}
    fn bookmark(&mut self, _: &str) {}
    fn matches_first(&mut self, _: Option<&[u8]>) -> bool {
        true
    }
    fn health(&mut self, _: &Health) {}
}

/// Forwards connections until they are frozen; later connections are forwarded.
async fn proxy(
    listener: TcpListener,
    server: std::net::SocketAddr,
    mut frozen: watch::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (near, _) = listener.accept().await.unwrap();
        let far = TcpStream::connect(server).await.unwrap();
        let (near, far) = (near.into_split(), far.into_split());
        drop(frozen.borrow_and_update());
        connections.spawn(forward(near.0, far.1, frozen.clone()));
        connections.spawn(forward(far.0, near.1, frozen.clone()));
    }
}

async fn forward(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    mut frozen: watch::Receiver<()>,
) {
    let mut buffer = vec![0; 4096];
    loop {
        tokio::select! {
            biased;
            _ = frozen.changed() => return std::future::pending().await,
            read = from.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return,
                Ok(read) => if to.write_all(&buffer[..read]).await.is_err() { return },
            }
        }
    }
}

#[tokio::test]
async fn connection_through_a_frozen_proxy_is_replaced() {
    let server = ApiServer::builder().build().await.unwrap();
    let serving = server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (real, proxied) = (serving.address(), listener.local_addr().unwrap());
    let folder = std::env::temp_dir().join(format!("evenkeel-frozen-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("kubeconfig");
    let kubeconfig = serving.kubeconfig().replace(&real.to_string(), &proxied.to_string());
    std::fs::write(&path, kubeconfig).unwrap();
    let transport = connect::connect(Some(path), None, Observer::for_test()).await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();

    let (freeze, frozen) = watch::channel(());
    let mut tasks = JoinSet::new();
    tasks.spawn(proxy(listener, real, frozen));
    let options = ReflectorOptions {
        watch_timeout: Duration::from_secs(1)..Duration::from_secs(2),
        margin: Duration::from_millis(200),
        ..ReflectorOptions::default()
    };
    let reflector = Reflector::new(transport, scope(), options, History::default(), Random::new(1));
    let (sender, mut names) = mpsc::channel(64);
    tasks.spawn(async move { match reflector.run(&mut Names(sender)).await {} });
    let admin: Api<ConfigMap> =
        Api::namespaced(Client::new(server.service(), "default"), "default");
    for name in ["before", "after"] {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        admin.create(&Default::default(), &map).await.unwrap();
        let heard = async { while names.recv().await.unwrap() != name {} };
        tokio::time::timeout(Duration::from_secs(60), heard).await.expect(name);
        freeze.send_replace(());
    }
    tasks.shutdown().await;
    serving.stop().await;
}
