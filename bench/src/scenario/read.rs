//! How long a large list takes, and how long until every watcher knows of a write.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Body};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tower_service::Service as _;

use super::Namespace;
use crate::client::Endpoint;
use crate::figure::{Figure, Report, Target};
use crate::load;
use crate::probe::{Stopwatch, median, milliseconds};
use crate::server::Process;

const OBJECTS: usize = 10_000;
const LISTS: usize = 21;
const WATCHERS: usize = 1_000;
const WRITES: usize = 100;

/// All of a namespace's objects at once, over one TLS connection.
pub(crate) async fn list(report: &mut Report, rival: Option<&Endpoint>) -> anyhow::Result<()> {
    let process = Process::start()?;
    let ours = list_time(&process.endpoint).await?;
    drop(process);
    let rival = match rival {
        Some(rival) => Some(milliseconds(list_time(rival).await?)),
        None => None,
    };
    report.add(&Figure {
        what: "list of 10,000 over TLS",
        unit: "ms",
        ours: milliseconds(ours),
        target: Some(Target::AtMost(20.0)),
        rival,
    });
    Ok(())
}

async fn list_time(endpoint: &Endpoint) -> anyhow::Result<Duration> {
    let namespace = Namespace::create(endpoint, "list").await?;
    load::create_over_tls(endpoint, &namespace.name, OBJECTS, 32).await?;
    let mut connection = endpoint.connect().await?;
    let path = load::path(&namespace.name);
    let mut times = Vec::new();
    for _ in 0..LISTS {
        let watch = Stopwatch::start();
        let (status, length) = connection.exchange(Method::GET, &path, Bytes::new()).await?;
        times.push(watch.elapsed());
        anyhow::ensure!(status == StatusCode::OK, "list: {status}");
        anyhow::ensure!(length > OBJECTS * load::SIZE, "a list of {length} bytes is not whole");
    }
    namespace.delete().await?;
    Ok(median(times))
}

/// One write, many watchers, no socket: what is left is the server's own work.
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
        anyhow::ensure!(frames.len() == WATCHERS, "a watcher was left out");
        // While all are held, as many addresses mean as many encodings.
        encodings += frames.iter().map(|frame| frame.as_ptr()).collect::<HashSet<_>>().len();
    }
    let each = watch.elapsed() / WRITES as u32;
    report.add(&Figure {
        what: "one write until 1,000 watchers have it",
        unit: "ms",
        ours: milliseconds(each),
        target: None,
        rival: None,
    });
    report.add(&Figure {
        what: "  encodings of it",
        unit: "",
        ours: encodings as f64 / WRITES as f64,
        target: Some(Target::AtMost(1.0)),
        rival: None,
    });
    Ok(())
}
