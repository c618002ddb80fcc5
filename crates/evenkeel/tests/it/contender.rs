//! A process of client-go and one of this crate compete for one Lease, in real time.
//!
//! `cargo xtask contend` builds the Go program and runs this test.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use evenkeel::k8s_openapi::api::coordination::v1::Lease;
use evenkeel::kube::{Api, Client};
use evenkeel::leader::LeaderElection;
use evenkeel::prelude::*;
use evenkeel_apiserver::ApiServer;
use tokio::time::Instant;

use crate::harness::{start, stop};

/// The path of the Go program.
const PROGRAM: &str = "EVENKEEL_CONTENDER";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process of the Go program.
struct Contender {
    child: Child,
    lines: Receiver<String>,
}

impl Contender {
    fn start(kubeconfig: &std::path::Path, identity: &str) -> Self {
        let mut child = Command::new(std::env::var_os(PROGRAM).unwrap())
            .arg("-kubeconfig")
            .arg(kubeconfig)
            .args(["-lease", "shared", "-identity", identity])
            .args(["-lease-duration", "3s", "-renew-deadline", "2s", "-retry-period", "500ms"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let contender = Self { child, lines };
        contender.expect("standing by");
        contender
    }

    /// Waits until it prints this.
    fn expect(&self, expected: &str) {
        while self.lines.recv_timeout(TIMEOUT).unwrap() != expected {}
    }

    fn terminate(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap();
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Go: run `cargo xtask contend`"]
async fn client_go_and_this_crate_share_a_lease() {
    let folder = std::env::temp_dir().join(format!("evenkeel-contender-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let kubeconfig: PathBuf = folder.join("kubeconfig");
    let server = ApiServer::builder().build().await.unwrap();
    let serving = server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let leases: Api<Lease> = Api::namespaced(Client::new(server.service(), "default"), "default");
    let manager = async |identity: &str| {
        let options = LeaderElection::new()
            .id("shared")
            .namespace("default")
            .identity(identity)
            .lease_duration(Duration::from_secs(3))
            .renew_deadline(Duration::from_secs(2))
            .retry_period(Duration::from_millis(500));
        let builder = Manager::builder("contender").leader_election(options);
        builder.kubeconfig(kubeconfig.clone()).connect().await.unwrap()
    };
    let transitions = async || leases.get("shared").await.unwrap().spec.unwrap().lease_transitions;

    // Ours leads; a process of client-go stands by, and takes over when ours stops.
    let first = manager("ours-1").await;
    let running = start(&first);
    first.elected().await;
    let mut go = Contender::start(&kubeconfig, "go-1");
    go.expect("leader is ours-1");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(first.leader_elections()[0].is_leader(), "client-go respects our renewals");
    let begun = Instant::now();
    stop(&first, running).await;
    go.expect("started leading");
    println!("client-go took over {:?} after our graceful stop", begun.elapsed());
    assert_eq!(transitions().await, Some(1));

    // Ours stands by, and takes over when client-go releases the lease.
    let second = manager("ours-2").await;
    let running = start(&second);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!second.leader_elections()[0].is_leader(), "we respect the renewals of client-go");
    assert_eq!(&*second.leader_elections()[0].holder(), "go-1");
    go.terminate();
    let begun = Instant::now();
    second.elected().await;
    println!("we took over {:?} after the graceful stop of client-go", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(second.fencing_token(), Some(2));

    // Both take over after a crash of the other.
    let go = Contender::start(&kubeconfig, "go-2");
    go.expect("leader is ours-2");
    let begun = Instant::now();
    drop((running, second));
    go.expect("started leading");
    println!("client-go took over {:?} after our crash", begun.elapsed());
    let third = manager("ours-3").await;
    let running = start(&third);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    drop(go);
    third.elected().await;
    println!("we took over {:?} after the crash of client-go", begun.elapsed());
    assert!(begun.elapsed() > Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(third.fencing_token(), Some(4));
    stop(&third, running).await;
    serving.stop().await;
    let _ = std::fs::remove_dir_all(folder);
}
