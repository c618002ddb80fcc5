//! The memory of an idle server process, and per object.

use super::Namespace;
use crate::figure::{Figure, Report, Target};
use crate::load;
use crate::probe::resident;
use crate::server::{self, Process};

const OBJECTS: usize = 100_000;

pub(crate) async fn memory(report: &mut Report) -> anyhow::Result<()> {
    let process = Process::start()?;
    server::list_namespaces(&process.endpoint).await?;
    let idle = resident(&process.id())?;
    let namespace = Namespace::create(&process.endpoint, "memory").await?;
    load::create_over_tls(&process.endpoint, &namespace.name, OBJECTS, 32).await?;
    let full = resident(&process.id())?;
    report.add(&Figure {
        what: "memory of an idle server",
        unit: "MB",
        ours: idle / 1e6,
        target: Some(Target::AtMost(30.0)),
        rival: None,
    });
    report.add(&Figure {
        what: "  overhead per object of a kilobyte",
        unit: "bytes",
        ours: (full - idle) / OBJECTS as f64 - load::SIZE as f64,
        target: Some(Target::AtMost(3_000.0)),
        rival: None,
    });
    Ok(())
}
