//! Pairs of events of which the second one cancels the first: an operator that has to see the first
//! one misses it when its watch breaks in between (F9).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::plan::At;
use crate::world::{Change, Run};

/// Returns the place of the first event of each pair in a calm run: an object is created and
/// deleted, marked for deletion and gone, or changed and changed back, in one step.
pub(crate) fn cancelling_pairs(calm: &Run) -> Vec<At> {
    let mut by_object: BTreeMap<(&str, &str, &str), Vec<&Change>> = BTreeMap::new();
    for change in &calm.changes {
        let object = &change.object;
        if calm.requests.watches.contains_key(&object.resource) {
            let key = (&*object.resource, &*object.namespace, &*object.name);
            by_object.entry(key).or_default().push(change);
        }
    }
    let mut pairs = Vec::new();
    for ((resource, namespace, name), changes) in by_object {
        let object = match namespace {
            "" => name.to_owned(),
            namespace => format!("{namespace}/{name}"),
        };
        let cancelled = (0..changes.len()).filter(|first| is_cancelled(&changes, *first));
        let nth = cancelled.filter_map(|first| u32::try_from(first + 1).ok());
        pairs.extend(nth.map(|nth| At::new("event", resource, &object, nth)));
    }
    pairs
}

/// Whether a later change of the same step leaves the object as it was before the change.
fn is_cancelled(changes: &[&Change], first: usize) -> bool {
    let change = changes[first];
    let before = first.checked_sub(1).map(|index| changes[index]).filter(|it| !it.deleted);
    let mut later = changes[first + 1..].iter().take_while(|it| it.step == change.step);
    if change.deleted {
        return false;
    }
    match before {
        None => later.any(|it| it.deleted),
        Some(before) => {
            let terminates = is_terminating(change) && !is_terminating(before);
            let old = content(before);
            later.any(|it| match it.deleted {
                true => terminates,
                false => content(it) == old,
            })
        }
    }
}

fn is_terminating(change: &Change) -> bool {
    !change.object.value["metadata"]["deletionTimestamp"].is_null()
}

/// Returns the object without what each write changes.
fn content(change: &Change) -> Value {
    let mut value = Value::clone(&change.object.value);
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["generation", "managedFields", "resourceVersion"] {
            metadata.remove(field);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::Decoded;

    fn change(step: usize, value: Value, deleted: bool) -> Change {
        let (resource, namespace, name) = ("pods".to_owned(), "a".to_owned(), "b".to_owned());
        Change {
            revision: 1,
            object: Decoded { resource, namespace, name, value: value.into() },
            deleted,
            step,
        }
    }

    #[test]
    fn pairs_are_changes_that_are_taken_back_in_one_step() {
        let at = |step, x: u8| change(step, json!({"metadata": {"generation": x}, "x": x}), false);
        let gone = change(1, json!({"x": 2}), true);
        let flipped =
            [at(0, 1), at(0, 2), at(0, 3), change(0, json!({"metadata": {}, "x": 1}), false)];
        let is = |changes: &[Change]| -> Vec<usize> {
            let changes: Vec<&Change> = changes.iter().collect();
            (0..changes.len()).filter(|first| is_cancelled(&changes, *first)).collect()
        };
        assert_eq!(is(&flipped), [1]);
        assert_eq!(is(&[at(1, 1), at(1, 2), gone.clone()]), [0]);
        // The cluster was at rest in between.
        assert_eq!(is(&[at(0, 1), gone]), [0_usize; 0]);
        let marked = change(1, json!({"metadata": {"deletionTimestamp": "t"}, "x": 1}), false);
        assert_eq!(is(&[at(0, 1), marked, change(1, json!({}), true)]), [1]);
    }
}
