//! Ignores writes that change only the timestamps of managers.

use serde_json::Value;

use super::object;
use crate::value::equal;

/// Restores the timestamps of `old` in `new` if nothing else differs.
///
/// Runs before storing, after admission and defaulting, as upstream's
/// `IgnoreManagedFieldsTimestampsTransformer`. An added or removed entry is a change.
pub fn ignore_managed_fields_timestamps(old: &Value, new: &mut Value) {
    let Some((old_entries, new_entries)) =
        object::managed_fields(old).zip(object::managed_fields(new))
    else {
        return;
    };
    let (Some(old_entries), Some(new_entries)) = (old_entries.as_array(), new_entries.as_array())
    else {
        return;
    };
    if old_entries.len() != new_entries.len() {
        return;
    }
    let pairs = || old_entries.iter().zip(new_entries);
    let times_differ = pairs().any(|(old, new)| old.get("time") != new.get("time"));
    let entries_equal = || pairs().all(|(old, new)| equal_except(old, new, "time", |_, _| true));
    if !times_differ || !entries_equal() {
        return;
    }
    let rest_equal = equal_except(old, new, "metadata", |old, new| {
        equal_except(old, new, "managedFields", |_, _| true)
    });
    if !rest_equal {
        return;
    }
    let times: Vec<Option<Value>> =
        old_entries.iter().map(|entry| entry.get("time").cloned()).collect();
    let entries = object::metadata_mut(new)
        .and_then(|meta| meta.get_mut("managedFields"))
        .and_then(Value::as_array_mut);
    for (entry, time) in entries.into_iter().flatten().zip(times) {
        let Some(entry) = entry.as_object_mut() else { continue };
        match time {
            Some(time) => entry.insert("time".into(), time),
            None => entry.remove("time"),
        };
    }
}

/// Returns whether two maps are equal, apart from one entry that is compared by `compare`. The
/// entry may be absent on either side.
fn equal_except(
    old: &Value,
    new: &Value,
    name: &str,
    compare: impl Fn(&Value, &Value) -> bool,
) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return equal(old, new);
    };
    let others =
        |map: &serde_json::Map<String, Value>| map.len() - usize::from(map.contains_key(name));
    others(old) == others(new)
        && old
            .iter()
            .filter(|(key, _)| *key != name)
            .all(|(key, old)| new.get(key).is_some_and(|new| equal(old, new)))
        && compare(old.get(name).unwrap_or(&Value::Null), new.get(name).unwrap_or(&Value::Null))
}
