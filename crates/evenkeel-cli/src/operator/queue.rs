//! `evenkeel queue`: the keys in the workqueues of a running operator, with their causes.

use clap::Args;
use serde_json::{Value, json};

use super::socket::Operator;
use super::{OperatorArgs, short, table};
use crate::output;

#[derive(Args)]
#[command(after_help = "Example:\n  evenkeel queue --json")]
pub(crate) struct Queue {
    /// Controller to show [default: all]
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(crate) fn run(queue: &Queue) -> anyhow::Result<()> {
    let operator = Operator::find(queue.operator.operator.as_deref())?;
    let object = json!({"controller": queue.controller});
    let items = operator.request(&json!({"method": "queue", "object": object}))?;
    if queue.operator.json {
        return output::print(&items.iter().map(|item| format!("{item}\n")).collect::<String>());
    }
    if items.is_empty() {
        output::progress("The workqueues are empty.");
        return Ok(());
    }
    let header = ["CONTROLLER", "OBJECT", "STATE", "FAILURES", "CAUSES"].map(str::to_owned);
    let mut rows = vec![header.to_vec()];
    rows.extend(items.iter().map(row));
    output::print(&table(&rows))
}

fn row(item: &Value) -> Vec<String> {
    let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let object = match text("/object/namespace") {
        "" => text("/object/name").to_owned(),
        namespace => format!("{namespace}/{}", text("/object/name")),
    };
    let time = short(item["seconds"].as_f64().unwrap_or_default());
    let state = match text("/state") {
        "delayed" => format!("due in {time}"),
        state => format!("{state} for {time}"),
    };
    let causes = item["causes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    vec![
        text("/controller").to_owned(),
        object,
        state,
        item["failures"].to_string(),
        causes.collect::<Vec<_>>().join("; "),
    ]
}
