//! The cost of CEL: compiling a rule, checking an object, and stopping a hostile rule.
//!
//! The rival is cel-go, in a program that is built if Go is installed. Both get the same rules and
//! object; each figure is that of the fastest round.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use evenkeel_cel::{Env, ErrorKind, Limits, Program, Type, Value};
use serde_json::{Value as Json, json};

use crate::figure::{Figure, Report, Target};
use crate::probe::{best, microseconds, milliseconds, resident};

/// Rules as CRDs have them.
const RULES: [&str; 5] = [
    "self.spec.replicas >= self.spec.minReplicas && self.spec.replicas <= self.spec.maxReplicas",
    "!has(self.spec.paused) || !self.spec.paused || self.spec.replicas == 0",
    "self.spec.ports.all(p, p.port > 0 && p.port < 65536 && p.protocol in ['TCP', 'UDP'])",
    "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",
    "self.spec.containers.exists(c, c.name == 'main') && self.spec.strategy.type == 'RollingUpdate'",
];

/// 30⁵ steps, each of which compares two numbers.
const HOSTILE: &str = "self.spec.numbers.all(a, self.spec.numbers.all(b, self.spec.numbers.all(c, \
     self.spec.numbers.all(d, self.spec.numbers.all(e, a + b + c + d + e >= 0)))))";

/// The limit of Kubernetes for one evaluation.
const COST_LIMIT: u64 = 1_000_000;

/// Measures compilation, evaluation, the limit and memory.
pub(crate) fn cel(report: &mut Report) -> anyhow::Result<()> {
    let env = Env::builder()
        .standard_library()
        .optional_types()
        .two_variable_comprehensions()
        .extensions()
        .variable("self", Type::Dyn)
        .build()?;
    let object = object();
    let programs = compile(&env)?;
    let hostile = env.program(HOSTILE)?;
    let rival = match measure_rival(&object) {
        Ok(times) => Some(times),
        Err(why) => {
            report.skip("cel-go", &format!("{why:#}"));
            None
        }
    };
    let rules = f64::from(u32::try_from(RULES.len())?);
    let compiled = microseconds(best(|| compile(&env))) / rules;
    report.add(&Figure {
        what: "compile a rule",
        unit: "us",
        ours: compiled,
        target: Some(Target::AtMost(100.0)),
        rival: rival.map(|[compile, ..]| compile / 1e3),
    });
    let variables = [Value::from_json(&object)];
    for program in &programs {
        let value = program.evaluate(&variables).context("a rule failed")?;
        anyhow::ensure!(value == Value::Bool(true), "a rule is not satisfied");
    }
    let limits = Limits { cost: Some(COST_LIMIT), interrupted: None };
    let checked =
        best(|| programs.iter().all(|program| program.run(&variables, limits).result.is_ok()));
    report.add(&Figure {
        what: "check 5 rules, 30 fields",
        unit: "us",
        ours: microseconds(checked),
        target: Some(Target::AtMost(10.0)),
        rival: rival.map(|[_, check, _]| check / 1e3),
    });
    let stopped = hostile.run(&variables, limits);
    let stopped = stopped.result.err().map(|error| error.kind());
    anyhow::ensure!(stopped == Some(ErrorKind::CostLimit), "the hostile rule was not stopped");
    report.add(&Figure {
        what: "stop a hostile rule",
        unit: "ms",
        ours: milliseconds(best(|| hostile.run(&variables, limits).cost)),
        target: Some(Target::AtMost(100.0)),
        rival: rival.map(|[.., hostile]| hostile / 1e6),
    });
    let before = resident("self")?;
    let kept: Vec<Vec<Program>> = (0..4_000).map(|_| compile(&env)).collect::<Result<_, _>>()?;
    let bytes = (resident("self")? - before) / (4_000.0 * rules);
    drop(kept);
    report.add(&Figure {
        what: "memory of a compiled rule",
        unit: "kB",
        ours: bytes / 1e3,
        target: Some(Target::AtMost(10.0)),
        rival: None,
    });
    Ok(())
}

fn compile(env: &Env) -> anyhow::Result<Vec<Program>> {
    Ok(RULES.iter().map(|rule| env.program(rule)).collect::<Result<_, _>>()?)
}

/// An object with 30 fields.
fn object() -> Json {
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "protocol": "TCP"});
    json!({
        "apiVersion": "example.com/v1", "kind": "App",
        "metadata": {"name": "my-app-1", "namespace": "default", "labels": {"app": "a", "tier": "web"}},
        "spec": {
            "replicas": 3, "minReplicas": 1, "maxReplicas": 5, "paused": false,
            "strategy": {"type": "RollingUpdate"},
            "ports": [port("http", 80), port("https", 443), port("metrics", 9090)],
            "containers": [{"name": "side", "image": "i"}, {"name": "main", "image": "i"}],
            "numbers": (0..30).collect::<Vec<_>>(),
        }
    })
}

/// Nanoseconds of cel-go: compiling a rule, checking all, stopping the hostile one.
fn measure_rival(object: &Json) -> anyhow::Result<[f64; 3]> {
    let program = crate::go::build("cel")?;
    let started = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    // A running program can be unlinked.
    std::fs::remove_file(&program)?;
    let mut child = started?;
    let request = json!({"rules": RULES, "hostile": HOSTILE, "object": object});
    writeln!(child.stdin.take().context("no input")?, "{request}")?;
    let output = child.wait_with_output()?;
    let response: Json =
        serde_json::from_slice(&output.stdout).context("no response from the rival")?;
    let time = |what: &str| response[what].as_f64().with_context(|| format!("no {what}"));
    Ok([time("compile")?, time("check")?, time("hostile")?])
}
