//! `evenkeel why`: why an object was reconciled, and the outcome.

use clap::Args;
use serde_json::{Value, json};

use super::socket::Operator;
use super::{OperatorArgs, parse_object, short};
use crate::output;

#[derive(Args)]
#[command(after_help = "Example:\n  evenkeel why greeting/ada -n default")]
pub(crate) struct Why {
    /// The object as KIND/NAME
    object: String,
    /// Namespace of the object [default: any]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Number of reconciles to show
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    last: usize,
    /// Also show further reconciles until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Prints the last reconciles. The exit code is 1 if there are none.
pub(crate) fn run(why: &Why) -> anyhow::Result<()> {
    let (kind, name) = parse_object(&why.object)?;
    let operator = Operator::find(why.operator.operator.as_deref())?;
    let object = json!({"kind": kind, "namespace": why.namespace, "name": name});
    let request = |follow| json!({"method": "records", "object": object, "follow": follow});
    let records = operator.request(&request(false))?;
    let skipped = records.len().saturating_sub(why.last);
    let print = |record: &Value| {
        output::print(&match why.operator.json {
            true => format!("{record}\n"),
            false => block(record),
        })
    };
    records.iter().skip(skipped).try_for_each(print)?;
    if why.follow {
        let mut known = records.len();
        return operator.stream(&request(true), true, |record| match known {
            0 => print(&record),
            _ => {
                known -= 1;
                Ok(())
            }
        });
    }
    if records.is_empty() {
        output::progress(&format!(
            "{} has not reconciled {} since it started\n\
             hint: `evenkeel trigger {}` reconciles it, `evenkeel queue` shows what is waiting",
            operator.name, why.object, why.object
        ));
        std::process::exit(1);
    }
    Ok(())
}

/// Returns a reconcile as a block of lines: the object and its causes, the writes, the outcome.
pub(crate) fn block(record: &Value) -> String {
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let list = |name: &str| record[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let time = text("/started").split('T').nth(1).unwrap_or_default();
    let time: String = time.chars().take(12).collect();
    let object = match text("/object/namespace") {
        "" => text("/object/name").to_owned(),
        namespace => format!("{namespace}/{}", text("/object/name")),
    };
    let causes: Vec<_> = list("causes").iter().filter_map(Value::as_str).collect();
    let mut block = format!("{time} {} {object} ← {}\n", text("/kind"), causes.join("; "));
    let indent = " ".repeat(13);
    let mut unchanged = 0;
    for write in list("writes") {
        let part = |name: &str| write[name].as_str().unwrap_or_default();
        match part("result") {
            "unchanged" => unchanged += 1,
            "failed" => {
                block.push_str(&format!("{indent}{} failed: {}\n", part("request"), part("error")));
            }
            _ => {
                let fields = write["fields"].as_array().map(Vec::as_slice).unwrap_or_default();
                let fields: Vec<_> = fields.iter().filter_map(Value::as_str).collect();
                let fields = match fields.is_empty() {
                    true => String::new(),
                    false => format!(" ({})", fields.join(", ")),
                };
                block.push_str(&format!("{indent}{}{fields}\n", part("request")));
            }
        }
    }
    let duration = short(record["durationSeconds"].as_f64().unwrap_or_default());
    let unchanged = match unchanged {
        0 => String::new(),
        count => format!(" · {count} unchanged"),
    };
    let error = match text("/error") {
        "" => String::new(),
        error => format!(": {error}"),
    };
    block.push_str(&format!("{indent}{}{error} · {duration}{unchanged}\n", text("/outcome")));
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_starts_with_the_cause_and_counts_unchanged_writes() {
        let record = json!({
            "kind": "Web",
            "object": {"namespace": "default", "name": "sample"},
            "started": "2026-01-02T12:04:01.113456Z",
            "durationSeconds": 0.006,
            "causes": ["updated (generation 1→2)", "retry 1"],
            "writes": [
                {"request": "apply Deployment.apps default/sample", "result": "changed",
                 "fields": ["spec.replicas"]},
                {"request": "apply Service default/sample", "result": "unchanged"},
                {"request": "patch Web/status default/sample", "result": "failed",
                 "error": "conflict"},
            ],
            "outcome": "failed",
            "error": "conflict",
        });
        let expected = "\
12:04:01.113 Web default/sample ← updated (generation 1→2); retry 1
             apply Deployment.apps default/sample (spec.replicas)
             patch Web/status default/sample failed: conflict
             failed: conflict · 6ms · 1 unchanged
";
        assert_eq!(block(&record), expected);
    }
}
