//! The board and the alerts in `dashboards/` use metrics and labels that are exported.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::harness::World;

/// Functions, operators and modifiers of PromQL that the files use.
const WORDS: &[&str] = &[
    "sum",
    "max",
    "min",
    "by",
    "on",
    "and",
    "rate",
    "increase",
    "histogram_quantile",
    "label_values",
    "min_over_time",
];

/// Labels that Prometheus or the kubelet adds to each sample.
const TARGET_LABELS: &[&str] = &["job", "namespace", "pod", "le"];

fn read(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboards/");
    fs::read_to_string(format!("{path}{name}")).unwrap()
}

/// Collects the texts of a key anywhere in a document.
fn texts<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == key => found.push(text),
                    _ => texts(value, key, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, key, found)),
        _ => {}
    }
}

/// Returns the identifiers of an expression, without quoted texts, durations and variables.
fn identifiers(expression: &str) -> Vec<String> {
    let mut unquoted = String::new();
    for (number, part) in expression.split('"').enumerate() {
        unquoted.push_str(if number % 2 == 0 { part } else { " " });
    }
    let mut found = Vec::new();
    for word in unquoted.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$') {
        if word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            found.push(word.to_owned());
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn boards_and_alerts_use_exported_metrics() {
    let manager = World::new().await.manager();
    let exported: BTreeSet<String> = manager.metrics().names().into_iter().collect();
    let labels = manager.metrics().labels();
    let board: Value = serde_json::from_str(&read("evenkeel.json")).unwrap();
    let alerts: Value = serde_saphyr::from_str(&read("alerts.yaml")).unwrap();
    let mut expressions = Vec::new();
    texts(&board, "expr", &mut expressions);
    texts(&board, "definition", &mut expressions);
    let panels = expressions.len();
    texts(&alerts, "expr", &mut expressions);
    assert!(panels > 30 && expressions.len() - panels > 15, "{panels} {}", expressions.len());
    let mut used = BTreeSet::new();
    for expression in expressions {
        for word in identifiers(expression) {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|it| word.strip_suffix(it));
            let metric =
                [Some(&*word), base].into_iter().flatten().find(|it| exported.contains(*it));
            match metric {
                Some(metric) => drop(used.insert(metric.to_owned())),
                None => assert!(
                    WORDS.contains(&&*word)
                        || TARGET_LABELS.contains(&&*word)
                        || labels.contains(&word),
                    "{word:?} in {expression:?} is neither a metric nor a label that is exported"
                ),
            }
        }
    }
    // Every metric of this crate is on the board or in an alert, or named here.
    let unused: Vec<_> = exported.iter().filter(|name| !used.contains(*name)).collect();
    for name in unused {
        let known = name.starts_with("process_")
            || name.starts_with("rest_client_")
            || [
                "certwatcher_read_certificate_total",
                "controller_runtime_webhook_requests_in_flight",
                "evenkeel_build_info",
                "evenkeel_informer_lists_total",
                "leader_election_slowpath_total",
            ]
            .contains(&name.as_str());
        assert!(known, "{name} is on no board and in no alert");
    }
}
