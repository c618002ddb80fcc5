//! An upstream cluster starts, works, and stops with the process that started it.
//!
//! Without the executables every check is skipped and counted.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a custom test harness")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use evenkeel_upstream::client::Client;
use evenkeel_upstream::{
    Binaries, Cluster, KUBERNETES_VERSION, UpstreamOptions, locate, report_skipped,
};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::time::Instant;

type Check = (&'static str, fn(&Binaries) -> anyhow::Result<()>);

const CHECKS: &[Check] = &[
    ("every_program_reports_the_pinned_version", versions),
    ("controller_manager_creates_the_replica_set_of_a_deployment", controllers),
    ("compaction_expires_older_revisions", compaction),
    ("panic_stops_the_cluster", |binaries| cluster_stops_after(binaries, Termination::Panic)),
    ("ctrl_c_stops_a_server_with_an_open_watch", |binaries| {
        cluster_stops_after(binaries, Termination::Interrupt)
    }),
    ("kill_9_stops_the_cluster", |binaries| cluster_stops_after(binaries, Termination::Kill)),
];

/// Set in the child process that is terminated.
const CHILD: &str = "EVENKEEL_UPSTREAM_CHILD";

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        return run_child();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<_> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(&***f));
    let checks: Vec<_> = CHECKS.iter().filter(|(name, _)| wanted(name)).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        checks.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let binaries = match locate() {
        Ok(binaries) => binaries,
        Err(missing) => {
            report_skipped(checks.len(), "checks of a real cluster", missing);
            return ExitCode::SUCCESS;
        }
    };
    // In parallel: they mostly wait for servers to stop.
    let failed = std::thread::scope(|scope| {
        let run = |(name, check): &Check| match check(&binaries) {
            Ok(()) => {
                println!("test {name} ... ok");
                0
            }
            Err(error) => {
                println!("test {name} ... FAILED\n{error:?}");
                1
            }
        };
        let running: Vec<_> = checks.iter().map(|check| scope.spawn(move || run(check))).collect();
        running.into_iter().map(|check| check.join().unwrap_or(1)).sum::<usize>()
    });
    println!("{} passed, {failed} failed", checks.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}

async fn request(client: &Client, method: &str, path: &str, body: Value) -> anyhow::Result<Value> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::new(if body.is_null() { Bytes::new() } else { body.to_string().into() }))?;
    let bytes = client.send(request).await?.into_body().collect().await?.to_bytes();
    // A watch returns several events; the first is sufficient.
    let mut values = serde_json::Deserializer::from_slice(&bytes).into_iter();
    values.next().context("an empty response")?.context("not JSON")
}

fn versions(binaries: &Binaries) -> anyhow::Result<()> {
    block_on(async {
        let cluster = Cluster::start(binaries, &UpstreamOptions::default()).await?;
        let client = Client::connect(cluster.address(), cluster.credentials(), 1).await?;
        let version = request(&client, "GET", "/version", Value::Null).await?;
        let server_version = version["gitVersion"].as_str().unwrap_or_default();
        ensure!(server_version.starts_with("v1.36."), "{version}");
        let Some(kubectl) = &binaries.kubectl else {
            report_skipped(1, "part of a check of a real cluster", "no kubectl");
            return Ok(());
        };
        let output = Command::new(kubectl)
            .args(["version", "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(text.contains(&format!("Server Version: {server_version}")), "{text}");
        // The environment may name another patch release.
        let client = text.lines().find_map(|line| line.strip_prefix("Client Version: v"));
        let minor = KUBERNETES_VERSION.rsplit_once('.').map_or("", |(minor, _)| minor);
        ensure!(client.is_some_and(|version| version.starts_with(minor)), "{text}");
        Ok(())
    })
}

fn controllers(binaries: &Binaries) -> anyhow::Result<()> {
    if binaries.kube_controller_manager.is_none() {
        report_skipped(1, "check of a real cluster", "no kube-controller-manager");
        return Ok(());
    }
    block_on(async {
        let mut options = UpstreamOptions::default();
        options.controllers = true;
        let cluster = Cluster::start(binaries, &options).await?;
        let client = Client::connect(cluster.address(), cluster.credentials(), 1).await?;
        let deployment = json!({
            "metadata": {"name": "a"},
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {
                    "metadata": {"labels": {"app": "x"}},
                    "spec": {"containers": [{"name": "c", "image": "image"}]},
                },
            },
        });
        let collection = "/apis/apps/v1/namespaces/default";
        let created =
            request(&client, "POST", &format!("{collection}/deployments"), deployment).await?;
        ensure!(created["metadata"]["uid"].is_string(), "{created}");
        // Read until the first event, or until the server ends the watch.
        let path = format!("{collection}/replicasets?watch=1&timeoutSeconds=60");
        let response = client.send(Request::get(path).body(Full::new(Bytes::new()))?).await?;
        let mut body = response.into_body();
        let mut line = Vec::new();
        while !line.contains(&b'\n') {
            let frame = body.frame().await.context("no ReplicaSet within a minute")??;
            line.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
        let event: Value = serde_json::Deserializer::from_slice(&line)
            .into_iter()
            .next()
            .context("no event")??;
        let owner = event.pointer("/object/metadata/ownerReferences/0/uid");
        ensure!(owner == created.pointer("/metadata/uid"), "{event}");
        Ok(())
    })
}

fn compaction(binaries: &Binaries) -> anyhow::Result<()> {
    block_on(async {
        let mut cluster = Cluster::start(binaries, &UpstreamOptions::default()).await?;
        let client = Client::connect(cluster.address(), cluster.credentials(), 1).await?;
        let collection = "/api/v1/namespaces/default/configmaps";
        let mut old = String::new();
        for name in ["a", "b"] {
            let body = json!({"metadata": {"name": name}});
            let created = request(&client, "POST", collection, body).await?;
            let version = created["metadata"]["resourceVersion"].as_str().context("a version")?;
            if old.is_empty() {
                version.clone_into(&mut old);
            }
        }
        cluster.compact().await?;
        let client = Client::connect(cluster.address(), cluster.credentials(), 1).await?;
        let path = format!("{collection}?resourceVersion={old}&resourceVersionMatch=Exact");
        let list = request(&client, "GET", &path, Value::Null).await?;
        ensure!(list["reason"] == "Expired", "{list}");
        let path = format!("{collection}?watch=1&timeoutSeconds=1&resourceVersion={old}");
        let event = request(&client, "GET", &path, Value::Null).await?;
        ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "{event}");
        let list = request(&client, "GET", collection, Value::Null).await?;
        ensure!(list["items"].as_array().is_some_and(|items| items.len() >= 2), "{list}");
        Ok(())
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Termination {
    Panic,
    Interrupt,
    Kill,
}

/// Runs in the child process: starts a cluster, opens a watch, prints the addresses and waits for
/// input.
fn run_child() -> ExitCode {
    let held = block_on(async {
        let binaries = locate()?;
        let cluster = Cluster::start(&binaries, &UpstreamOptions::default()).await?;
        let client = Client::connect(cluster.address(), cluster.credentials(), 1).await?;
        let watch = Request::get("/api/v1/namespaces?watch=1").body(Full::new(Bytes::new()))?;
        let _watch = client.send(watch).await?;
        println!("{}", cluster.address());
        println!("{}", cluster.etcd_address());
        println!("{}", cluster.kubeconfig().display());
        let mut byte = [0];
        std::io::stdin().read_exact(&mut byte)?;
        #[expect(clippy::panic, reason = "the cluster must stop after a panic")]
        {
            panic!("requested by the test");
        }
        #[expect(unreachable_code, reason = "gives the block its type")]
        Ok(())
    });
    eprintln!("{held:?}");
    ExitCode::FAILURE
}

/// The grace period of the guard, plus a margin for a loaded machine.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

fn cluster_stops_after(_: &Binaries, termination: Termination) -> anyhow::Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let started = (|| {
        let output = child.stdout.take().context("no output")?;
        let lines: Vec<_> = BufReader::new(output).lines().take(3).collect::<Result<_, _>>()?;
        let [server, etcd, kubeconfig] = <[String; 3]>::try_from(lines)
            .map_err(|lines| anyhow::anyhow!("the child printed only {lines:?}"))?;
        Ok::<_, anyhow::Error>((server.parse()?, etcd.parse()?, PathBuf::from(kubeconfig)))
    })();
    let (server, etcd, kubeconfig) = match started {
        Ok(started) => started,
        Err(error) => {
            let _ = child.kill();
            return Err(error);
        }
    };
    ensure!(is_listening(server) && is_listening(etcd), "the cluster is not running");
    let dir = kubeconfig.ancestors().nth(3).context("a dir")?.to_owned();
    ensure!(dir.is_dir(), "no {}", dir.display());
    let start = Instant::now();
    kill(&mut child, termination)?;
    child.wait()?;
    while is_listening(server) || is_listening(etcd) || dir.exists() {
        ensure!(start.elapsed() < STOP_TIMEOUT, "still running: {}", remaining(server, etcd, &dir));
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("  stopped {:.1} s after {termination:?}", start.elapsed().as_secs_f64());
    Ok(())
}

fn kill(child: &mut Child, termination: Termination) -> anyhow::Result<()> {
    match termination {
        Termination::Panic => child.stdin.take().context("no input")?.write_all(b"\n")?,
        Termination::Kill => child.kill()?,
        Termination::Interrupt => {
            let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
            ensure!(sent.success(), "kill: {sent}");
        }
    }
    Ok(())
}

fn is_listening(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

fn remaining(server: SocketAddr, etcd: SocketAddr, dir: &Path) -> String {
    format!(
        "server {}, etcd {}, {} {}",
        is_listening(server),
        is_listening(etcd),
        dir.display(),
        dir.exists()
    )
}
