//! The cost of server-side apply: a whole request, and the engine compared with Go's.
//!
//! The engine's rival is structured-merge-diff, in a program that is built if Go is installed. Both
//! get the same, already decoded objects; each figure is that of the fastest round.

mod objects;

mod rival;

use anyhow::Context as _;
use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Service};
use evenkeel_apply::managed::{Filter, Request, SingleVersion, apply as apply_config};
use evenkeel_apply::path::fields;
use evenkeel_apply::{ObjectType, Set};
use evenkeel_types::Gvk;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower_service::Service as _;

use self::rival::Rival;
use crate::figure::{Figure, Report, Target};
use crate::probe::{best, microseconds};

/// Measures requests and the engine.
pub(crate) fn apply(report: &mut Report) -> anyhow::Result<()> {
    let runtime = crate::one_thread()?;
    let mut server = runtime.block_on(Applier::new())?;
    request(report, &runtime, &mut server)?;

    let mut rival = match Rival::build() {
        Ok(rival) => Some(rival),
        Err(why) => {
            report.skip("structured-merge-diff", &format!("{why:#}"));
            None
        }
    };
    for size in &SIZES {
        let live = runtime.block_on(server.apply(&size.config()))?;
        engine(report, size, &live, rival.as_mut())?;
    }
    Ok(())
}

/// Measures the repeated apply of a typical Deployment by its only field manager.
fn request(report: &mut Report, runtime: &Runtime, server: &mut Applier) -> anyhow::Result<()> {
    let config = objects::typical();
    let stored = runtime.block_on(server.apply(&config))?;
    let text = stored.to_string();
    let plain = best(|| serde_json::from_str::<Value>(&text).map(|value| value.to_string()));
    report.add(&Figure {
        what: "decode and encode of a Deployment",
        unit: "us",
        ours: microseconds(plain),
        target: None,
        rival: None,
    });
    report.add(&Figure {
        what: "no-op apply, request to response",
        unit: "us",
        ours: microseconds(repeated(runtime, server, &config)?),
        target: Some(Target::AtMost(4.0 * microseconds(plain))),
        rival: None,
    });
    let engine = Engine::new()?;
    let merged = best(|| apply_config(&engine.request(), Some(&stored), &config, false));
    report.add(&Figure {
        what: "  the engine's part",
        unit: "us",
        ours: microseconds(merged),
        target: None,
        rival: None,
    });
    report.add(&Figure {
        what: "  with an atomic field restored by defaulting",
        unit: "us",
        ours: microseconds(repeated(runtime, server, &objects::typical_but_for_defaults())?),
        target: None,
        rival: None,
    });
    Ok(())
}

/// Returns the time of a no-op apply, from the request to the response.
fn repeated(
    runtime: &Runtime,
    server: &mut Applier,
    config: &Value,
) -> anyhow::Result<std::time::Duration> {
    let stored = runtime.block_on(server.apply(config))?;
    let again = runtime.block_on(server.apply(config))?;
    anyhow::ensure!(stored == again, "the second apply changes the object");
    let (name, body) = (name(config)?, Bytes::from(config.to_string()));
    Ok(best(|| runtime.block_on(server.send(name, body.clone()))))
}

fn name(config: &Value) -> anyhow::Result<&str> {
    config["metadata"]["name"].as_str().context("no name")
}

/// The objects of the linearity table.
struct Size {
    containers: usize,
    variables: usize,
    /// Containers times variables.
    per: f64,
    what: [&'static str; 4],
}

macro_rules! size {
    ($containers:literal x $variables:literal) => {
        Size {
            containers: $containers,
            variables: $variables,
            per: ($containers * if $containers == 1 { $variables } else { 1 }) as f64,
            what: [
                concat!("merge, ", $containers, " containers x ", $variables, " variables"),
                "  compare",
                "  apply without change",
                "    each container or variable",
            ],
        }
    };
}

const SIZES: [Size; 6] = [
    size!(10 x 2),
    size!(100 x 2),
    size!(1000 x 2),
    size!(1 x 10),
    size!(1 x 100),
    size!(1 x 1000),
];

impl Size {
    fn config(&self) -> Value {
        objects::wide(self.containers, self.variables)
    }
}

fn engine(
    report: &mut Report,
    size: &Size,
    live: &Value,
    rival: Option<&mut Rival>,
) -> anyhow::Result<()> {
    let config = size.config();
    let engine = Engine::new()?;
    let request = engine.request();
    let ty = &engine.versions.object_type;
    let changed = {
        let mut changed = live.clone();
        let middle = size.containers / 2;
        changed["spec"]["template"]["spec"]["containers"][middle]["image"] = json!("other:v2");
        changed
    };
    let mut bare = live.clone();
    if let Some(meta) = bare["metadata"].as_object_mut() {
        meta.remove("managedFields");
    }
    let ours = [
        best(|| ty.merge(changed.clone(), &config)),
        best(|| ty.compare(&bare, &changed)),
        best(|| apply_config(&request, Some(live), &config, false)),
    ];
    let theirs = rival.map(|rival| rival.measure(live, &config, &changed)).transpose()?;
    let targets = [3.0, 3.0, 1.0].map(Target::Faster);
    for (at, (ours, target)) in ours.into_iter().zip(targets).enumerate() {
        report.add(&Figure {
            what: size.what[at],
            unit: "us",
            ours: microseconds(ours),
            target: Some(target),
            rival: theirs.map(|theirs| microseconds(theirs[at])),
        });
    }
    report.add(&Figure {
        what: size.what[3],
        unit: "us",
        ours: microseconds(ours[2]) / size.per,
        target: None,
        rival: None,
    });
    Ok(())
}

/// The inputs of the apply engine that the server provides.
struct Engine {
    versions: SingleVersion,
    reset: [(&'static str, Filter); 1],
    empty_object: Value,
}

impl Engine {
    fn new() -> anyhow::Result<Self> {
        let gvk = Gvk::from_api_version(objects::API_VERSION, objects::KIND);
        let ty = evenkeel_types::lookup(gvk).context("no type")?;
        let object_type = ObjectType::builtin(ty)?;
        let mut empty_object = json!({});
        evenkeel_types::conform(ty, &mut empty_object)?;
        Ok(Self {
            versions: SingleVersion { api_version: objects::API_VERSION.into(), object_type },
            reset: [(objects::API_VERSION, Filter::Exclude(Set::from_paths([fields(["status"])])))],
            empty_object,
        })
    }

    fn request(&self) -> Request<'_> {
        Request {
            versions: &self.versions,
            api_version: objects::API_VERSION,
            kind: objects::KIND,
            subresource: "",
            reset_fields: &self.reset,
            empty_object: &self.empty_object,
            manager: MANAGER,
            now: "2024-01-01T00:00:00Z",
        }
    }
}

const MANAGER: &str = "bench";

/// Applies Deployments through the tower service.
struct Applier(Service);

impl Applier {
    async fn new() -> anyhow::Result<Self> {
        Ok(Self(ApiServer::builder().build().await?.service()))
    }

    /// Applies a configuration and returns the resulting object.
    async fn apply(&mut self, config: &Value) -> anyhow::Result<Value> {
        let (status, body) = self.send(name(config)?, config.to_string().into()).await?;
        anyhow::ensure!(status.is_success(), "apply: {status} {body:?}");
        Ok(serde_json::from_slice(&body)?)
    }

    async fn send(&mut self, name: &str, config: Bytes) -> anyhow::Result<(StatusCode, Bytes)> {
        let path = format!(
            "/apis/apps/v1/namespaces/default/deployments/{name}?fieldManager={MANAGER}&force=true"
        );
        let request = http::Request::patch(path)
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .body(Full::new(config))?;
        let Ok(response) = self.0.call(request).await;
        let status = response.status();
        let Ok(body) = response.into_body().collect().await;
        Ok((status, body.to_bytes()))
    }
}
