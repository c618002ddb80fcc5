//! Start and stop: once, a thousand times, and with open watches.

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;

use crate::client::Endpoint;
use crate::figure::{Figure, Report, Target};
use crate::load;
use crate::probe::{Stopwatch, handles, median, milliseconds, resident};
use crate::server;

const STARTS: usize = 21;
const SERVERS: usize = 1_000;
/// The number of servers after which allocators and caches have reached their final size.
const WARM: usize = 100;
const WATCHES: usize = 100;

/// Measures the time from building a server to its first response over TLS, in new processes.
pub(crate) fn start(report: &mut Report) -> anyhow::Result<()> {
    let (mut times, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let watch = Stopwatch::start();
        let output = Command::new(std::env::current_exe()?).arg("first-response").output()?;
        whole.push(watch.elapsed());
        let text = String::from_utf8(output.stdout)?;
        let micros =
            text.trim().parse().with_context(|| format!("the process printed {text:?}"))?;
        times.push(Duration::from_micros(micros));
    }
    report.add(&Figure {
        what: "start to first response over TLS",
        unit: "ms",
        ours: milliseconds(median(times)),
        target: Some(Target::AtMost(50.0)),
        rival: None,
    });
    report.add(&Figure {
        what: "  from exec to the end of the process",
        unit: "ms",
        ours: milliseconds(median(whole)),
        target: Some(Target::AtMost(50.0)),
        rival: None,
    });
    Ok(())
}

/// Builds, serves and drops servers sequentially, with one request each.
pub(crate) async fn servers(report: &mut Report) -> anyhow::Result<()> {
    let mut warm = (0.0, 0);
    let watch = Stopwatch::start();
    for at in 0..SERVERS {
        if at == WARM {
            warm = (resident("self")?, handles()?);
        }
        let server = server::build().await?;
        let serving = server.serve(([127, 0, 0, 1], 0).into()).await?;
        server::list_namespaces(&Endpoint::parse(&serving.url(), server::TOKEN.into())?).await?;
        serving.stop().await;
    }
    let elapsed = watch.elapsed();
    let grown = resident("self")? - warm.0;
    report.add(&Figure {
        what: "1,000 servers: each",
        unit: "ms",
        ours: milliseconds(elapsed) / SERVERS as f64,
        target: None,
        rival: None,
    });
    report.add(&Figure {
        what: "  memory leaked by each of the last 900",
        unit: "bytes",
        ours: grown.max(0.0) / (SERVERS - WARM) as f64,
        target: Some(Target::AtMost(1_000.0)),
        rival: None,
    });
    report.add(&Figure {
        what: "  files and threads leaked",
        unit: "",
        ours: handles()?.saturating_sub(warm.1) as f64,
        target: Some(Target::AtMost(0.0)),
        rival: None,
    });
    Ok(())
}

/// Stops a server with open watches, each on its own connection.
pub(crate) async fn stop(report: &mut Report) -> anyhow::Result<()> {
    let server = server::build().await?;
    let serving = server.serve(([127, 0, 0, 1], 0).into()).await?;
    let endpoint = Endpoint::parse(&serving.url(), server::TOKEN.into())?;
    let path = format!("{}?watch=1", load::path("default"));
    let mut open = Vec::new();
    for _ in 0..WATCHES {
        let mut connection = endpoint.connect().await?;
        let response = connection.send(Method::GET, &path, Bytes::new()).await?;
        anyhow::ensure!(response.status().is_success(), "watch: {}", response.status());
        open.push((connection, response.into_body()));
    }
    let watch = Stopwatch::start();
    serving.stop().await;
    let elapsed = watch.elapsed();
    for (_, mut body) in open {
        while let Some(frame) = body.frame().await {
            frame.context("a watch was aborted instead of ended")?;
        }
    }
    report.add(&Figure {
        what: "stop with 100 open watches",
        unit: "ms",
        ours: milliseconds(elapsed),
        target: Some(Target::AtMost(50.0)),
        rival: None,
    });
    Ok(())
}
