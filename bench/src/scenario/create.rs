//! The rate of creating ConfigMaps of a kilobyte.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_apiserver::ApiServer;
use tokio::task::JoinSet;

use super::Namespace;
use crate::client::Endpoint;
use crate::figure::{Figure, Report, Target};
use crate::load;
use crate::probe::{Stopwatch, thread_cpu_time};
use crate::server::Process;

const IN_PROCESS: usize = 100_000;
const DURABLE: usize = 40_000;
const WRITERS: usize = 64;
const OVER_TLS: usize = 10_000;
const CONNECTIONS: usize = 32;

/// Creates objects through the tower service, sequentially, on one thread.
pub(crate) async fn in_process(report: &mut Report) -> anyhow::Result<()> {
    let server = ApiServer::builder().build().await?;
    let mut service = server.service();
    let path = load::path("default");
    let (watch, busy) = (Stopwatch::start(), thread_cpu_time()?);
    for at in 0..IN_PROCESS {
        load::create(&mut service, &path, &format!("object-{at:07}")).await?;
    }
    let elapsed = watch.elapsed();
    let busy = thread_cpu_time()? - busy;
    report.add(&Figure {
        what: "create, in process, one core",
        unit: "/s",
        ours: IN_PROCESS as f64 / elapsed.as_secs_f64(),
        target: Some(Target::AtLeast(20_000.0)),
        rival: None,
    });
    report.add(&Figure {
        what: "  CPU time per create",
        unit: "us",
        ours: busy.as_secs_f64() * 1e6 / IN_PROCESS as f64,
        target: Some(Target::AtMost(50.0)),
        rival: None,
    });
    Ok(())
}

/// Creates objects in a data directory by concurrent writers, with fsync before each response.
pub(crate) async fn durable(report: &mut Report) -> anyhow::Result<()> {
    let directory = std::env::temp_dir().join(format!("evenkeel-bench-{}", std::process::id()));
    let outcome = durable_in(&directory).await;
    std::fs::remove_dir_all(&directory)?;
    report.add(&Figure {
        what: "create, on disk, 64 writers",
        unit: "/s",
        ours: outcome?,
        target: Some(Target::AtLeast(5_000.0)),
        rival: None,
    });
    Ok(())
}

async fn durable_in(directory: &std::path::Path) -> anyhow::Result<f64> {
    let server = ApiServer::builder().data_dir(directory).build().await?;
    let next = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    let watch = Stopwatch::start();
    for _ in 0..WRITERS {
        let (mut service, next) = (server.service(), next.clone());
        writers.spawn(async move {
            let path = load::path("default");
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= DURABLE {
                    return anyhow::Ok(());
                }
                load::create(&mut service, &path, &format!("object-{at:07}")).await?;
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(DURABLE as f64 / watch.elapsed().as_secs_f64())
}

/// Creates objects over TLS in a server process, compared with the rival.
pub(crate) async fn over_tls(report: &mut Report, rival: Option<&Endpoint>) -> anyhow::Result<()> {
    let process = Process::start()?;
    let ours = rate(&process.endpoint).await?;
    drop(process);
    let rival = match rival {
        Some(rival) => Some(rate(rival).await?),
        None => None,
    };
    report.add(&Figure {
        what: "create, over TLS, 32 connections",
        unit: "/s",
        ours,
        target: Some(Target::TimesRival(6.0)),
        rival,
    });
    Ok(())
}

async fn rate(endpoint: &Endpoint) -> anyhow::Result<f64> {
    let namespace = Namespace::create(endpoint, "create").await?;
    let rate = load::create_over_tls(endpoint, &namespace.name, OVER_TLS, CONNECTIONS).await?;
    namespace.delete().await?;
    Ok(rate)
}
