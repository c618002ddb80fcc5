//! Compares the errors of an invalid apply, which kube-apiserver finds in random order.
//!
//! kube-apiserver walks each map of an applied object in the random order of Go's maps and leaves a
//! map at its first undeclared field. The order of its errors is therefore random, as is which of
//! several undeclared fields of a map is reported, and other errors in such a map may be missing.
//! Everything else has to be equal: [`are_equivalent`] returns whether one server could have
//! returned both messages.

const UNDECLARED: &str = ": field not declared in schema";

/// Returns whether two messages report errors of the same object that differ only by map order.
pub(crate) fn are_equivalent(a: &str, b: &str) -> bool {
    let (Some((of_a, a)), Some((of_b, b))) = (parse_errors(a), parse_errors(b)) else {
        return false;
    };
    of_a == of_b && covers(&a, &b) && covers(&b, &a)
}

/// Splits a message into the failed operation and its errors.
fn parse_errors(message: &str) -> Option<(&str, Vec<&str>)> {
    if let Some((doing, lines)) = message.split_once("errors:\n  ") {
        return Some((doing, lines.split("\n  ").collect()));
    }
    // Without an operation, the message begins with the path.
    let at = if message.starts_with('.') { 0 } else { message.find(": .")? + 2 };
    Some((&message[..at], vec![&message[at..]]))
}

/// Returns whether each of `others` is in `errors`, or is in a map that was left early.
fn covers(errors: &[&str], others: &[&str]) -> bool {
    let abandoned: Vec<_> = errors.iter().copied().filter_map(map_of_undeclared_field).collect();
    others.iter().all(|other| {
        errors.contains(other)
            || abandoned
                .iter()
                .any(|map| other.strip_prefix(map).is_some_and(|rest| rest.starts_with('.')))
    })
}

/// Returns the map of an undeclared field.
fn map_of_undeclared_field(error: &str) -> Option<&str> {
    let path = error.strip_suffix(UNDECLARED)?;
    path.rfind('.').map(|dot| &path[..dot])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(errors: &[&str]) -> String {
        match errors {
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
    fn errors_are_equivalent_only_if_map_order_explains_the_difference() {
        let number = ".spec.replicas: expected numeric (int or float), got string";
        let bogus = ".spec.bogus: field not declared in schema";
        let other = ".spec.other: field not declared in schema";
        let below = ".spec.template.odd: field not declared in schema";
        let in_metadata = ".metadata.odd: field not declared in schema";
        let same: [(&[&str], &[&str]); 4] = [
            (&[number, bogus], &[bogus, number]),
            (&[number, bogus], &[bogus]),
            (&[bogus], &[other]),
            (&[bogus, below], &[other, number]),
        ];
        for (a, b) in same {
            assert!(are_equivalent(&message(a), &message(b)), "{a:?} {b:?}");
        }
        let different: [(&[&str], &[&str]); 4] = [
            (&[number], &[bogus]),
            (&[number, bogus], &[number]),
            (&[bogus, in_metadata], &[bogus]),
            (&[number, below], &[below]),
        ];
        for (a, b) in different {
            assert!(!are_equivalent(&message(a), &message(b)), "{a:?} {b:?}");
        }
        assert!(!are_equivalent(&message(&[bogus]), &message(&[bogus]).replace("ns/d", "ns/e")));
        assert!(are_equivalent(bogus, other) && !are_equivalent(bogus, in_metadata));
    }
}
