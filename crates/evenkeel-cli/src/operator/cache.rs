//! `evenkeel cache`: the types that a running operator caches.

use clap::Args;
use serde_json::{Value, json};

use super::socket::Operator;
use super::{OperatorArgs, short, table};
use crate::output;

#[derive(Args)]
#[command(after_help = "Example:\n  evenkeel cache")]
pub(crate) struct Cache {
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(crate) fn run(cache: &Cache) -> anyhow::Result<()> {
    let operator = Operator::find(cache.operator.operator.as_deref())?;
    let types = operator.request(&json!({"method": "cache"}))?;
    if cache.operator.json {
        return output::print(&types.iter().map(|it| format!("{it}\n")).collect::<String>());
    }
    let header = ["KIND", "OBJECTS", "BYTES", "WATCH", "STATE"].map(str::to_owned);
    let mut rows = vec![header.to_vec()];
    rows.extend(types.iter().map(row));
    output::print(&table(&rows))
}

fn row(cached: &Value) -> Vec<String> {
    let text = |name: &str| cached[name].as_str().unwrap_or_default();
    let kind = match text("group") {
        "" => text("kind").to_owned(),
        group => format!("{}.{group}", text("kind")),
    };
    let age = cached["watchAgeSeconds"].as_f64();
    let state = match (text("failure"), cached["synced"].as_bool()) {
        ("", Some(true)) => "synced".to_owned(),
        ("", _) => "syncing".to_owned(),
        (failure, _) => failure.to_owned(),
    };
    vec![
        kind,
        cached["objects"].to_string(),
        cached["bytes"].to_string(),
        age.map_or_else(|| "-".to_owned(), |age| format!("{} ago", short(age))),
        state,
    ]
}
