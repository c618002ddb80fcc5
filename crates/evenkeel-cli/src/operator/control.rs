//! `evenkeel pause`, `resume` and `trigger`: control of a running operator.

use clap::Args;
use serde_json::{Value, json};

use super::socket::Operator;
use super::{OperatorArgs, parse_object};
use crate::output;

#[derive(Args)]
pub(crate) struct Pause {
    /// Controller [default: all]
    controller: Option<String>,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Args)]
#[command(after_help = "Example:\n  evenkeel trigger greeting/ada -n default")]
pub(crate) struct Trigger {
    /// The object as KIND/NAME
    object: String,
    /// Namespace of the object
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Pauses or resumes controllers.
pub(crate) fn pause(pause: &Pause, paused: bool) -> anyhow::Result<()> {
    let operator = Operator::find(pause.operator.operator.as_deref())?;
    let object = json!({"controller": pause.controller});
    let request = json!({"method": "pause", "object": object, "paused": paused});
    let controllers = operator.request(&request)?;
    if pause.operator.json {
        return print_json(&controllers);
    }
    for controller in &controllers {
        let name = controller["name"].as_str().unwrap_or_default();
        let state = if paused { "paused" } else { "resumed" };
        output::progress(&format!("{name} {state}, {} keys are due", controller["due"]));
    }
    Ok(())
}

/// Reconciles an object.
pub(crate) fn trigger(trigger: &Trigger) -> anyhow::Result<()> {
    let (kind, name) = parse_object(&trigger.object)?;
    let operator = Operator::find(trigger.operator.operator.as_deref())?;
    let object = json!({"kind": kind, "namespace": trigger.namespace, "name": name});
    let controllers = operator.request(&json!({"method": "trigger", "object": object}))?;
    if trigger.operator.json {
        return print_json(&controllers);
    }
    for controller in &controllers {
        let controller = controller["name"].as_str().unwrap_or_default();
        output::progress(&format!("{} enqueued in {controller}", trigger.object));
    }
    Ok(())
}

fn print_json(values: &[Value]) -> anyhow::Result<()> {
    output::print(&values.iter().map(|it| format!("{it}\n")).collect::<String>())
}
