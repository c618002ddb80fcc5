//! Clients that try to exhaust the server, and the latency of other clients meanwhile.
//!
//! During an attack another client repeatedly opens a connection, gets `/readyz` and closes the
//! connection. The longest duration is reported.

use std::fmt::Write as _;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time;

use crate::client::Endpoint;
use crate::figure::{Figure, Report, Target};
use crate::load;
use crate::probe::{Stopwatch, milliseconds, resident};
use crate::server::Process;

/// The maximum duration of a small request during an attack.
const MAX_LATENCY: Target = Target::AtMost(1_000.0);

/// The duration of attacks that do not end by themselves.
const DURATION: Duration = Duration::from_secs(10);

/// Objects that are expensive to validate: thousands of owner references, ports and containers.
pub(crate) async fn heavy(report: &mut Report) -> anyhow::Result<()> {
    let process = Process::start()?;
    let bodies: [(&str, Bytes); 3] = [
        ("configmaps", owners(36_000).into()),
        ("services", ports(10_000).into()),
        ("pods", containers(10_000).into()),
    ];
    let mut attack = JoinSet::new();
    for (plural, body) in bodies.iter().cycle().take(12).cloned() {
        let endpoint = process.endpoint.clone();
        attack.spawn(async move {
            let path = format!("/api/v1/namespaces/default/{plural}");
            endpoint.connect().await?.exchange(Method::POST, &path, body).await
        });
    }
    let (_, times) = meanwhile(finish(attack), async || ready(&process.endpoint).await).await?;
    report.add(&longest("12 objects of 10,000 parts and more: /readyz", &times));
    Ok(())
}

/// Bodies that are sent except for their last byte, by clients with and without credentials.
pub(crate) async fn bodies(report: &mut Report) -> anyhow::Result<()> {
    const CONNECTIONS: usize = 4;
    const STREAMS: usize = 500;
    let process = Process::start()?;
    let before = resident(&process.id())?;
    let mut attack = JoinSet::new();
    for n in 0..2 * CONNECTIONS {
        let endpoint = process.endpoint.clone();
        attack.spawn(async move { endpoint.send_endless_bodies(n % 2 == 0, STREAMS).await });
    }
    let mut peak = before;
    let attack = time::timeout(DURATION, finish(attack));
    let (_, times) = meanwhile(attack, async || {
        peak = peak.max(resident(&process.id())?);
        ready(&process.endpoint).await
    })
    .await?;
    report.add(&longest("4,000 bodies without an end: /readyz", &times));
    report.add(&Figure {
        what: "  memory they take",
        unit: "MB",
        ours: (peak - before) / 1e6,
        target: Some(Target::AtMost(400.0)),
        rival: None,
    });
    Ok(())
}

/// Idle connections without credentials, twice as many as the server's limit of open files.
pub(crate) async fn connections(report: &mut Report) -> anyhow::Result<()> {
    const FILES: usize = 1024;
    evenkeel_apiserver::listen::raise_open_files_limit();
    let process = Process::start_with_files(FILES)?;
    let endpoint = process.endpoint.clone();
    let attack = async move {
        let (mut mute, mut idle) = (Vec::new(), Vec::new());
        for _ in 0..FILES {
            mute.push(TcpStream::connect(endpoint.address()).await?);
            // The server closes the oldest connections, possibly during the handshake.
            idle.extend(endpoint.tls_handshake().await.ok());
        }
        time::sleep(DURATION).await;
        anyhow::Ok((mute, idle))
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(attack);
    let (_, times) = meanwhile(finish(tasks), async || ready(&process.endpoint).await).await?;
    report.add(&longest("2,048 idle connections, 1,024 files: /readyz", &times));
    Ok(())
}

/// Many concurrent large lists, and the latency of small writes meanwhile.
pub(crate) async fn lists(report: &mut Report) -> anyhow::Result<()> {
    const OBJECTS: usize = 10_000;
    const LISTS: usize = 100;
    let process = Process::start()?;
    load::create_over_tls(&process.endpoint, "default", OBJECTS, 16).await?;
    let before = resident(&process.id())?;
    let mut attack = JoinSet::new();
    for _ in 0..LISTS {
        let endpoint = process.endpoint.clone();
        attack.spawn(async move {
            let mut connection = endpoint.connect().await?;
            connection.accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
            let path = format!("{}?includeObject=Object", load::path("default"));
            connection.exchange(Method::GET, &path, Bytes::new()).await
        });
    }
    let mut writer = process.endpoint.connect().await?;
    let (mut peak, mut count) = (before, 0);
    let (_, mut times) = meanwhile(finish(attack), async || {
        peak = peak.max(resident(&process.id())?);
        count += 1;
        let body = format!(r#"{{"metadata":{{"name":"small-{count}"}}}}"#);
        let path = load::path("default");
        let (status, _) = writer.exchange(Method::POST, &path, body.into()).await?;
        anyhow::ensure!(status == StatusCode::CREATED, "a small write returned {status}");
        Ok(())
    })
    .await?;
    report.add(&longest("100 lists of 10,000 as tables: a small write", &times));
    times.sort_unstable();
    report.add(&Figure {
        what: "  p99 of such writes",
        unit: "ms",
        ours: milliseconds(times.get(times.len() * 99 / 100).copied().unwrap_or_default()),
        target: None,
        rival: None,
    });
    report.add(&Figure {
        what: "  memory they take",
        unit: "MB",
        ours: (peak - before) / 1e6,
        target: None,
        rival: None,
    });
    Ok(())
}

/// Runs `probe` repeatedly until `attack` has ended; returns the duration of each run.
async fn meanwhile<T>(
    attack: impl Future<Output = T>,
    mut probe: impl AsyncFnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(T, Vec<Duration>)> {
    let mut attack = pin!(attack);
    let mut times = Vec::new();
    let mut outcome = None;
    loop {
        let watch = Stopwatch::start();
        {
            let mut one = pin!(probe());
            loop {
                tokio::select! {
                    ended = &mut attack, if outcome.is_none() => outcome = Some(ended),
                    done = &mut one => break done?,
                }
            }
        }
        times.push(watch.elapsed());
        if let Some(outcome) = outcome {
            return Ok((outcome, times));
        }
        tokio::select! {
            ended = &mut attack => outcome = Some(ended),
            () = time::sleep(Duration::from_millis(10)) => {}
        }
    }
}

/// Waits for all attackers. Errors are expected, because the server rejects them.
async fn finish<T: 'static>(mut attackers: JoinSet<anyhow::Result<T>>) {
    while attackers.join_next().await.is_some() {}
}

async fn ready(endpoint: &Endpoint) -> anyhow::Result<()> {
    let mut connection = endpoint.connect().await?;
    let (status, _) = connection.exchange(Method::GET, "/readyz", Bytes::new()).await?;
    anyhow::ensure!(status == StatusCode::OK, "/readyz returned {status}");
    Ok(())
}

fn longest(what: &'static str, times: &[Duration]) -> Figure {
    let longest = times.iter().max().copied().unwrap_or_default();
    Figure { what, unit: "ms", ours: milliseconds(longest), target: Some(MAX_LATENCY), rival: None }
}

/// Returns a ConfigMap with `count` owner references.
fn owners(count: usize) -> String {
    let owner = |n: usize| format!(r#"{{"apiVersion":"v1","kind":"Pod","name":"a","uid":"{n}"}}"#);
    format!(r#"{{"metadata":{{"name":"owned","ownerReferences":[{}]}}}}"#, list(count, owner))
}

/// Returns a Service with `count` ports.
fn ports(count: usize) -> String {
    let port = |n: usize| format!(r#"{{"name":"p{n}","port":{}}}"#, n + 1);
    format!(r#"{{"metadata":{{"name":"wide"}},"spec":{{"ports":[{}]}}}}"#, list(count, port))
}

/// Returns a Pod with `count` containers.
fn containers(count: usize) -> String {
    let container = |n: usize| format!(r#"{{"name":"c{n}","image":"x"}}"#);
    format!(
        r#"{{"metadata":{{"name":"full"}},"spec":{{"containers":[{}]}}}}"#,
        list(count, container)
    )
}

fn list(count: usize, one: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for n in 0..count {
        let comma = if n == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{}", one(n));
    }
    text
}
