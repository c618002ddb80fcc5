//! What is wrong with an applied object, said by a server that looks in random order.
//!
//! A real server walks each map of an applied object in the random order of Go's maps, and leaves a
//! map at its first undeclared field. So the order of its complaints says nothing, which of several
//! undeclared fields of a map it names says nothing, and a complaint about such a map may be missing.
//! Everything else has to be as it is: [`agree`] asks whether one server could have said both.

const UNDECLARED: &str = ": field not declared in schema";

/// Whether two messages are complaints about the same object that differ by chance alone.
pub(crate) fn agree(a: &str, b: &str) -> bool {
    let (Some((of_a, a)), Some((of_b, b))) = (faults(a), faults(b)) else { return false };
    of_a == of_b && covers(&a, &b) && covers(&b, &a)
}

/// What was being done, and each complaint.
fn faults(message: &str) -> Option<(&str, Vec<&str>)> {
    if let Some((doing, lines)) = message.split_once("errors:\n  ") {
        return Some((doing, lines.split("\n  ").collect()));
    }
    let at = message.find(": .")? + 2;
    Some((&message[..at], vec![&message[at..]]))
}

/// Whether each of `others` is among `faults`, or was missed because its map was left early.
fn covers(faults: &[&str], others: &[&str]) -> bool {
    let left: Vec<_> = faults.iter().copied().filter_map(left_early).collect();
    others.iter().all(|other| {
        faults.contains(other)
            || left
                .iter()
                .any(|map| other.strip_prefix(map).is_some_and(|rest| rest.starts_with('.')))
    })
}

/// The map whose undeclared field this is.
fn left_early(fault: &str) -> Option<&str> {
    let path = fault.strip_suffix(UNDECLARED)?;
    path.rfind('.').map(|dot| &path[..dot])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(faults: &[&str]) -> String {
        match faults {
            [only] => format!(
                "failed to create typed patch object (ns/d; apps/v1, Kind=Deployment): {only}"
            ),
            many => {
                format!(
                    "failed to create typed patch object (ns/d; apps/v1, Kind=Deployment): errors:\n  {}",
                    many.join("\n  ")
                )
            }
        }
    }

    #[test]
    fn only_what_a_random_order_explains_agrees() {
        let number = ".spec.replicas: expected numeric (int or float), got string";
        let bogus = ".spec.bogus: field not declared in schema";
        let other = ".spec.other: field not declared in schema";
        let below = ".spec.template.odd: field not declared in schema";
        let beside = ".metadata.odd: field not declared in schema";
        let same: [(&[&str], &[&str]); 4] = [
            (&[number, bogus], &[bogus, number]),
            (&[number, bogus], &[bogus]),
            (&[bogus], &[other]),
            (&[bogus, below], &[other, number]),
        ];
        for (a, b) in same {
            assert!(agree(&message(a), &message(b)), "{a:?} {b:?}");
        }
        let different: [(&[&str], &[&str]); 4] = [
            (&[number], &[bogus]),
            (&[number, bogus], &[number]),
            (&[bogus, beside], &[bogus]),
            (&[number, below], &[below]),
        ];
        for (a, b) in different {
            assert!(!agree(&message(a), &message(b)), "{a:?} {b:?}");
        }
        assert!(!agree(&message(&[bogus]), &message(&[bogus]).replace("ns/d", "ns/e")));
    }
}
