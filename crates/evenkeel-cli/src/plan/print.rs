//! The plan as text or JSON.

use serde_json::{Value, json};

use super::changes::{Action, Change, Write};
use crate::diff;
use crate::output;

/// Prints the changes to stdout.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn changes(changes: &[Change], json: bool) -> anyhow::Result<()> {
    for change in changes {
        output::print(&match json {
            true => format!("{}\n", line(change)),
            false => block(change)?,
        })?;
    }
    Ok(())
}

fn name(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Delete => "delete",
        Action::Transient => "create and delete",
        Action::Rejected => "rejected",
    }
}

/// Returns a change as JSON.
fn line(change: &Change) -> Value {
    let write = |write: &Write| {
        json!({
            "verb": write.verb,
            "subresource": write.subresource,
            "fieldManager": write.manager,
        })
    };
    let writes = change.writes.iter().map(|(it, count)| {
        let mut value = write(it);
        value["count"] = (*count).into();
        value
    });
    let rejected = change.rejected.iter().map(|(it, error)| {
        let mut value = write(it);
        value["error"] = error.clone().into();
        value
    });
    let id = &change.id;
    json!({
        "action": name(change.action),
        "resource": id.resource,
        "namespace": id.namespace,
        "name": id.name,
        "writes": writes.collect::<Vec<_>>(),
        "rejected": rejected.collect::<Vec<_>>(),
        "before": change.before,
        "after": change.after,
    })
}

/// Returns the object of a change, as in `Deployment.apps default/web`.
fn reference(change: &Change) -> String {
    let id = &change.id;
    let known = change.after.as_ref().or(change.before.as_ref());
    let kind = match known.and_then(|object| object["kind"].as_str()) {
        Some(kind) => match id.resource.split_once('.') {
            Some((_, group)) => format!("{kind}.{group}"),
            None => kind.to_owned(),
        },
        None => id.resource.clone(),
    };
    let object = [&*id.namespace, &*id.name].into_iter().filter(|it| !it.is_empty());
    format!("{kind} {}", object.collect::<Vec<_>>().join("/"))
}

/// Returns a write, as in `patch status by web`.
fn request(write: &Write) -> String {
    let Write { verb, subresource, manager } = write;
    let subresource = match subresource.is_empty() {
        true => String::new(),
        false => format!(" {subresource}"),
    };
    let manager = match manager.is_empty() {
        true => String::new(),
        false => format!(" by {manager}"),
    };
    format!("{verb}{subresource}{manager}")
}

/// Returns a change as text: the object, the requests, a diff.
fn block(change: &Change) -> anyhow::Result<String> {
    let reference = reference(change);
    let mut text = format!("{} {reference}\n", name(change.action));
    for (write, count) in &change.writes {
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        text.push_str(&format!("  {}{times}\n", request(write)));
    }
    if change.writes.is_empty() && change.rejected.is_empty() {
        text.push_str("  by the API server, as part of another write\n");
    }
    for (write, error) in &change.rejected {
        text.push_str(&format!("  rejected: {}: {error}\n", request(write)));
    }
    let yaml = |object: &Option<Value>| match object {
        Some(object) => evenkeel::manifest::yaml(object),
        None => Ok(String::new()),
    };
    let label = |object: &Option<Value>| match object {
        Some(_) => reference.clone(),
        None => "/dev/null".to_owned(),
    };
    let (before, after) = (&change.before, &change.after);
    let diff = diff::unified(&label(before), &label(after), &yaml(before)?, &yaml(after)?);
    if diff.is_empty() && change.action == Action::Update {
        text.push_str("  only managed fields change\n");
    }
    text.push_str(&diff);
    text.push('\n');
    Ok(text)
}

/// Returns the number of changes, for a plan that is complete.
pub(super) fn summary(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "No writes.\n".to_owned();
    }
    let actions =
        [Action::Create, Action::Update, Action::Delete, Action::Transient, Action::Rejected];
    let counts = actions.into_iter().filter_map(|action| {
        let count = changes.iter().filter(|change| change.action == action).count();
        (count > 0).then(|| format!("{count} to {}", name(action)))
    });
    let counts: Vec<_> = counts.collect();
    format!("Plan: {}.\n", counts.join(", ").replace(" to rejected", " rejected"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::changes::Id;
    use super::*;

    fn update() -> Change {
        let object = |replicas: u32| json!({"kind": "Deployment", "spec": {"paused": true, "replicas": replicas}});
        let write = |subresource: &str| Write {
            verb: "patch".to_owned(),
            subresource: subresource.to_owned(),
            manager: "web".to_owned(),
        };
        Change {
            id: Id::new("deployments.apps", "default", "web"),
            action: Action::Update,
            before: Some(object(1)),
            after: Some(object(3)),
            writes: BTreeMap::from([(write(""), 2)]),
            rejected: BTreeSet::from([(write("status"), "is forbidden".to_owned())]),
        }
    }

    #[test]
    fn block_has_the_object_its_writers_and_a_diff() {
        let expected = "\
update Deployment.apps default/web
  patch by web (2 times)
  rejected: patch status by web: is forbidden
--- Deployment.apps default/web
+++ Deployment.apps default/web
@@ -1,4 +1,4 @@
 kind: Deployment
 spec:
   paused: true
-  replicas: 1
+  replicas: 3

";
        assert_eq!(block(&update()).unwrap(), expected);
        assert_eq!(summary(&[update()]), "Plan: 1 to update.\n");
        let refused = Change { action: Action::Rejected, ..update() };
        assert_eq!(summary(&[update(), refused]), "Plan: 1 to update, 1 rejected.\n");
        assert_eq!(summary(&[]), "No writes.\n");
        let managed = Change { after: update().before, ..update() };
        assert!(block(&managed).unwrap().contains("  only managed fields change\n"));
    }

    #[test]
    fn json_has_the_objects_before_and_after() {
        let line = line(&update());
        assert_eq!(line["action"], "update");
        assert_eq!(line["after"]["spec"]["replicas"], 3);
        assert_eq!(line["writes"][0]["fieldManager"], "web");
        assert_eq!(line["rejected"][0]["error"], "is forbidden");
    }
}
