//! Tests with real sockets and certificates.

use std::path::PathBuf;

use evenkeel_apiserver::ApiServer;

use super::*;

/// A file in a temporary directory that is removed on drop.
struct Kubeconfig(PathBuf);

impl Kubeconfig {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("evenkeel-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn version(client: &kube::Client) -> Result<(), kube::Error> {
    client.apiserver_version().await.map(|_| ())
}

#[tokio::test]
async fn a_rewritten_kubeconfig_is_read_when_tls_fails() {
    let file = Kubeconfig::new("rewritten");
    let first = ApiServer::builder().build().await.unwrap();
    let serving = first.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = serving.address();
    serving.write_kubeconfig(file.path()).unwrap();
    let client =
        open(Access::file(file.path(), None), Observer::for_test()).await.unwrap().client().clone();
    version(&client).await.unwrap();
    serving.stop().await;

    // The same address with another certificate authority.
    let second = ApiServer::builder().build().await.unwrap();
    let serving = second.serve(address).await.unwrap();
    let error = version(&client).await.unwrap_err();
    assert!(chain(&error).contains("certificate"), "{}", chain(&error));
    // The configuration is reloaded at most once per second.
    tokio::time::pause();
    tokio::time::advance(RELOAD_INTERVAL).await;
    tokio::time::resume();
    serving.write_kubeconfig(file.path()).unwrap();
    version(&client).await.unwrap_err();
    version(&client).await.unwrap();
    serving.stop().await;
}

#[tokio::test]
async fn credentials_are_read_again_when_they_are_refused() {
    let file = Kubeconfig::new("refused");
    let server = ApiServer::builder().build().await.unwrap();
    let serving = server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let good = serving.kubeconfig();
    let lines = good.lines().filter(|line| !line.contains("client-key-data"));
    let revoked: Vec<&str> = lines
        .map(
            |line| {
                if line.contains("client-certificate-data") { "    token: revoked" } else { line }
            },
        )
        .collect();
    std::fs::write(file.path(), revoked.join("\n")).unwrap();
    let client =
        open(Access::file(file.path(), None), Observer::for_test()).await.unwrap().client().clone();
    let list = || {
        let request = Request::get("/api/v1/namespaces").body(Vec::new()).unwrap();
        client.request::<serde_json::Value>(request)
    };
    serving.write_kubeconfig(file.path()).unwrap();
    match list().await.unwrap_err() {
        kube::Error::Api(status) => assert_eq!(status.code, 401),
        other => panic!("{other}"),
    }
    list().await.unwrap();
    serving.stop().await;
}

#[tokio::test]
async fn a_request_of_the_runtime_is_sent_by_the_task_that_makes_it() {
    let file = Kubeconfig::new("direct");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let config = serde_json::json!({
        "clusters": [{ "name": "it", "cluster": { "server": server } }],
        "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
        "users": [{ "name": "it", "user": {} }],
        "current-context": "it",
    });
    std::fs::write(file.path(), config.to_string()).unwrap();
    let transport = open(Access::file(file.path(), None), Observer::for_test()).await.unwrap();
    let request = || Request::get("/version").body(Body::empty()).unwrap();

    // This runtime has one thread, so no other task runs between the poll and the accept.
    let mut unwoken = Context::from_waker(std::task::Waker::noop());
    let mut sending = std::pin::pin!(transport.send(request()));
    assert!(sending.as_mut().poll(&mut unwoken).is_pending());
    assert!(listener.accept().is_ok(), "the first poll connects");

    let queued = Transport::from(transport.client().clone());
    let mut sending = std::pin::pin!(queued.send(request()));
    assert!(sending.as_mut().poll(&mut unwoken).is_pending());
    assert!(listener.accept().is_err(), "kube's client leaves that to another task");
}

/// `/proc/net/tcp` lists socket timers: 02 is keepalive, with its expiry.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_system_probes_idle_connections() {
    let file = Kubeconfig::new("probes");
    let server = ApiServer::builder().build().await.unwrap();
    let serving = server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    serving.write_kubeconfig(file.path()).unwrap();
    let client =
        open(Access::file(file.path(), None), Observer::for_test()).await.unwrap().client().clone();
    version(&client).await.unwrap();
    let remote = format!("0100007F:{:04X}", serving.address().port());
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let timers: Vec<&str> = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields.get(2) == Some(&remote.as_str()) && fields[3] == "01")
        .map(|fields| fields[5])
        .collect();
    assert!(!timers.is_empty(), "{table}");
    for timer in timers {
        let (kind, when) = timer.split_once(':').unwrap();
        let due = u64::from_str_radix(when, 16).unwrap() / 100;
        assert!(kind == "02" && due <= KEEPALIVE_TIME.as_secs(), "{timer}");
    }
    serving.stop().await;
}
