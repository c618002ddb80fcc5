//! The tree as text.

use serde_json::Value;

use super::fetch::Node;

/// Returns one line per object, with its conditions and what blocks its deletion.
pub(super) fn text(root: &Node) -> String {
    let mut lines = Vec::new();
    collect(root, "", "", &mut lines);
    let width = lines.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (left, right) in lines {
        let padding = " ".repeat(width - left.chars().count());
        text.push_str(format!("{left}{padding}  {right}").trim_end());
        text.push('\n');
    }
    text
}

fn collect(node: &Node, first: &str, rest: &str, lines: &mut Vec<(String, String)>) {
    let name = node.object.metadata.name.as_deref().unwrap_or_default();
    lines.push((format!("{first}{} {name}", node.kind), facts(node)));
    for (index, child) in node.children.iter().enumerate() {
        let last = index + 1 == node.children.len();
        let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        collect(child, &format!("{rest}{branch}"), &format!("{rest}{below}"), lines);
    }
}

/// Returns the conditions, and the state of a deletion.
fn facts(node: &Node) -> String {
    let meta = &node.object.metadata;
    let mut facts = Vec::new();
    if meta.deletion_timestamp.is_some() {
        let blockers = node.blockers();
        facts.push(match blockers.is_empty() {
            true => "deleting".to_owned(),
            false => format!("deleting, waits for {}", blockers.join(", ")),
        });
    }
    let conditions = node.object.data.pointer("/status/conditions").and_then(Value::as_array);
    for condition in conditions.into_iter().flatten() {
        let text = |name| condition.get(name).and_then(Value::as_str).unwrap_or_default();
        let reason = match text("reason") {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        // Reasons of conditions that are False mostly explain a problem.
        match text("status") {
            "True" => facts.push(format!("{}=True", text("type"))),
            status => facts.push(format!("{}={status}{reason}", text("type"))),
        }
    }
    if let Some(phase) = node.object.data.pointer("/status/phase").and_then(Value::as_str) {
        facts.push(phase.to_owned());
    }
    facts.join("  ")
}
