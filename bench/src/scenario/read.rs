//! The duration of large lists, and of the fan-out of a write to many watchers.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Body};
use http::header::ACCEPT;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tower_service::Service as _;

use super::Namespace;
use crate::client::Endpoint;
use crate::figure::{Figure, Report, Target};
use crate::load;
use crate::probe::{Stopwatch, median, milliseconds, thread_cpu_time};
use crate::server::Process;

const OBJECTS: usize = 10_000;
const LISTS: usize = 21;
const WATCHERS: usize = 1_000;
const WRITES: usize = 100;

/// The media types of lists, with their targets.
const FORMS: [(&str, &str, Target); 4] = [
    ("list of 10,000 over TLS", "application/json", Target::AtMost(20.0)),
    ("  in protobuf", PROTOBUF, Target::Faster(1.0)),
    (
        "  of metadata alone",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        Target::Faster(1.0),
    ),
    (
        "  of metadata alone, in protobuf",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        Target::Faster(1.0),
    ),
];

/// Lists all objects of a namespace over one TLS connection, in each media type.
pub(crate) async fn list(report: &mut Report, rival: Option<&Endpoint>) -> anyhow::Result<()> {
    let process = Process::start()?;
    let ours = list_times(&process.endpoint).await?;
    drop(process);
    let rivals = match rival {
        Some(rival) => Some(list_times(rival).await?),
        None => None,
    };
    for (at, (what, _, target)) in FORMS.into_iter().enumerate() {
        report.add(&Figure {
            what,
            unit: "ms",
            ours: milliseconds(ours[at]),
            target: Some(target),
            rival: rivals.as_ref().map(|rivals| milliseconds(rivals[at])),
        });
    }
    Ok(())
}

async fn list_times(endpoint: &Endpoint) -> anyhow::Result<Vec<Duration>> {
    let namespace = Namespace::create(endpoint, "list").await?;
    load::create_over_tls(endpoint, &namespace.name, OBJECTS, 32).await?;
    let mut connection = endpoint.connect().await?;
    let path = load::path(&namespace.name);
    let mut medians = Vec::new();
    for (what, accept, _) in FORMS {
        connection.accept = accept;
        let mut times = Vec::new();
        for _ in 0..LISTS {
            let watch = Stopwatch::start();
            let (status, length) = connection.get(&path).await?;
            times.push(watch.elapsed());
            anyhow::ensure!(status == StatusCode::OK, "{what}: {status}");
            let least = OBJECTS * if accept.contains("as=") { 200 } else { load::SIZE };
            anyhow::ensure!(length > least, "{what}: only {length} bytes");
        }
        medians.push(median(times));
    }
    namespace.delete().await?;
    Ok(medians)
}

/// Measures the server's cost of listing many pods, without a socket.
pub(crate) async fn list_pods(report: &mut Report) -> anyhow::Result<()> {
    let server = super::cache::pods(PODS).await?;
    let figures = [
        ("list of 50,000 pods, CPU time", "application/json"),
        ("  in protobuf, first request", PROTOBUF),
        ("  in protobuf, second request", PROTOBUF),
    ];
    for (what, accept) in figures {
        let request = Request::get("/api/v1/pods").header(ACCEPT, accept);
        let before = thread_cpu_time()?;
        let Ok(response) = server.service().call(request.body(Full::<Bytes>::default())?).await;
        anyhow::ensure!(response.status() == StatusCode::OK, "{what}: {}", response.status());
        let mut body = response.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame;
            length += frame.data_ref().map_or(0, Bytes::len);
        }
        let spent = thread_cpu_time()? - before;
        anyhow::ensure!(length > PODS * 1000, "{what}: only {length} bytes");
        let ours = milliseconds(spent);
        report.add(&Figure { what, unit: "ms", ours, target: None, rival: None });
    }
    Ok(())
}

const PODS: usize = 50_000;
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Measures the fan-out of one write to many watchers, without a socket.
pub(crate) async fn fan_out(report: &mut Report) -> anyhow::Result<()> {
    let server = ApiServer::builder().build().await?;
    let mut service = server.service();
    let path = load::path("default");
    let watch_path = format!("{path}?watch=1&resourceVersion={}", server.revision());
    let mut watchers: Vec<Body> = Vec::new();
    for _ in 0..WATCHERS {
        let request = Request::get(&watch_path).body(Full::<Bytes>::default())?;
        let Ok(response) = service.call(request).await;
        anyhow::ensure!(response.status() == StatusCode::OK, "watch: {}", response.status());
        watchers.push(response.into_body());
    }
    let mut encodings = 0;
    let watch = Stopwatch::start();
    for at in 0..WRITES {
        load::create(&mut service, &path, &format!("object-{at:07}")).await?;
        let mut frames = Vec::with_capacity(WATCHERS);
        for watcher in &mut watchers {
            let Ok(frame) = watcher.frame().await.context("a watch ended")?;
            frames.extend(frame.into_data());
        }
        anyhow::ensure!(frames.len() == WATCHERS, "a watcher got no event");
        // While all frames are held, each distinct address is a separate encoding.
        encodings += frames.iter().map(|frame| frame.as_ptr()).collect::<HashSet<_>>().len();
    }
    let each = watch.elapsed() / WRITES as u32;
    report.add(&Figure {
        what: "fan-out of one write to 1,000 watchers",
        unit: "ms",
        ours: milliseconds(each),
        target: None,
        rival: None,
    });
    report.add(&Figure {
        what: "  encodings per write",
        unit: "",
        ours: encodings as f64 / WRITES as f64,
        target: Some(Target::AtMost(1.0)),
        rival: None,
    });
    Ok(())
}
