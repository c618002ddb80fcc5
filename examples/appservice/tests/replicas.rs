//! Several processes of the operator on one cluster: which one acts when the leader is stopped or killed.
//!
//! Each process has a DNS zone of its own, so its records show what it did.

#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print times"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use appservice::operator::{AppService, AppServiceSpec};
use evenkeel_cluster::Cluster;
use kube::Api;
use kube::api::PostParams;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// One process of the operator.
struct Replica {
    child: Child,
    records: PathBuf,
}

impl Replica {
    fn start(kubeconfig: &Path, folder: &Path, number: usize) -> Self {
        let records = folder.join(format!("records-{number}"));
        let log = fs::File::create(folder.join(format!("log-{number}"))).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_appservice"))
            .args(["--leader-elect", "--install", "--kubeconfig"])
            .arg(kubeconfig)
            .arg("--records")
            .arg(&records)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, records }
    }

    /// Returns whether it has created the DNS record of the application.
    fn acted_on(&self, app: &str) -> bool {
        self.records.join(format!("{app}.default.example.com")).exists()
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    async fn exit(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "the process does not exit");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Fixture {
    cluster: Cluster,
    folder: PathBuf,
    kubeconfig: PathBuf,
    replicas: Vec<Replica>,
}

impl Fixture {
    async fn start(test: &str, count: usize) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let cluster = Cluster::start().await.unwrap();
        let serving = cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
        let kubeconfig = folder.join("kubeconfig");
        serving.write_kubeconfig(&kubeconfig).unwrap();
        // Serves as long as the process.
        std::mem::forget(serving);
        let replicas = (0..count).map(|it| Replica::start(&kubeconfig, &folder, it)).collect();
        Self { cluster, folder, kubeconfig, replicas }
    }

    /// Creates an application; returns which replica acts on it, and after what time.
    async fn acts(&self, app: &str) -> (usize, Duration) {
        let begun = Instant::now();
        let apps: Api<AppService> = Api::namespaced(self.cluster.client(), "default");
        let spec = AppServiceSpec { replicas: 2, image: "shop:1".to_owned(), secret: None };
        let app_service = AppService::new(app, spec);
        // Until the first replica has installed the CRD.
        while let Err(error) = apps.create(&PostParams::default(), &app_service).await {
            assert!(begun.elapsed() < Duration::from_secs(60), "{error}");
            sleep(Duration::from_millis(50)).await;
        }
        loop {
            if let Some(index) = self.replicas.iter().position(|it| it.acted_on(app)) {
                return (index, begun.elapsed());
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no replica acts on {app}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Checks that only this replica has acted.
    fn only(&self, app: &str, index: usize) {
        for (other, replica) in self.replicas.iter().enumerate() {
            assert_eq!(replica.acted_on(app), other == index, "{app}, replica {other}");
        }
    }

    /// Sends a signal to the leader; returns its index, its successor, and how long it took.
    async fn hand_over(&mut self, signal: &str) -> (usize, usize, Duration) {
        let (leader, _) = self.acts("before").await;
        // The standbys have seen the lease.
        sleep(Duration::from_secs(3)).await;
        self.only("before", leader);
        self.replicas[leader].signal(signal);
        if signal == "TERM" {
            // It completes what it has begun, and leads until then.
            assert!(self.replicas[leader].exit().await.success());
        }
        let (successor, took) = self.acts("after").await;
        println!(
            "{} processes, SIG{signal}: the next one acted after {took:?}",
            self.replicas.len()
        );
        assert_ne!(leader, successor);
        (leader, successor, took)
    }

    async fn stop(self) {
        drop(self.replicas);
        self.cluster.stop().await;
        let _ = fs::remove_dir_all(self.folder);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_leader_hands_over_and_exits_cleanly() {
    let mut fixture = Fixture::start("replicas-term", 2).await;
    let (_, successor, took) = fixture.hand_over("TERM").await;
    // A second on an idle machine; this one may be busy. A lease that had to expire would take 13.
    assert!(took < Duration::from_secs(13), "{took:?}");
    fixture.only("after", successor);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_frozen_leaders_are_replaced() {
    // Together, since each waits for a lease to expire.
    let mut cases = JoinSet::new();
    for count in [2, 3] {
        for signal in ["TERM", "KILL", "STOP"] {
            cases.spawn(is_replaced(signal, count));
        }
    }
    cases.join_all().await;
}

/// Sends a signal to the leader of `count` processes: another one acts, and it does not.
async fn is_replaced(signal: &str, count: usize) {
    let mut fixture = Fixture::start(&format!("replicas-{signal}-{count}"), count).await;
    // Not how fast: that depends on the load of the machine, and is tested in virtual time.
    let (leader, successor, _) = fixture.hand_over(signal).await;
    if signal == "STOP" {
        fixture.replicas[leader].signal("CONT");
        let status = fixture.replicas[leader].exit().await;
        assert_eq!(status.code(), Some(2), "it has lost the lease");
        let log = fs::read_to_string(fixture.folder.join(format!("log-{leader}"))).unwrap();
        assert!(log.contains("leader election lost"), "{log}");
        // Kubernetes restarts it.
        let number = fixture.replicas.len();
        let restarted = Replica::start(&fixture.kubeconfig, &fixture.folder, number);
        fixture.replicas.push(restarted);
        sleep(Duration::from_secs(2)).await;
    }
    fixture.only("after", successor);
    fixture.stop().await;
}
