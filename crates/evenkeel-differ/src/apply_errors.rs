//! What is wrong with an applied object, said by a server that looks in random order.
//!
//! A real server walks each map of an applied object in the random order of Go's maps, and leaves a
//! map at its first undeclared field. So the order of its complaints says nothing, which of several
//! undeclared fields of a map it names says nothing, and a complaint about such a map may be missing.
//! Everything else has to be as it is: [`are_equivalent`] asks whether one server could have said both.

const UNDECLARED: &str = ": field not declared in schema";

/// Whether two messages are complaints about the same object that differ by chance alone.
pub(crate) fn are_equivalent(a: &str, b: &str) -> bool {
    let (Some((of_a, a)), Some((of_b, b))) = (parse_errors(a), parse_errors(b)) else {
        return false;
    };
    of_a == of_b && covers(&a, &b) && covers(&b, &a)
}

/// What was being done, and each complaint.
fn parse_errors(message: &str) -> Option<(&str, Vec<&str>)> {
    if let Some((doing, lines)) = message.split_once("errors:\n  ") {
        return Some((doing, lines.split("\n  ").collect()));
    }
    let at = message.find(": .")? + 2;
    Some((&message[..at], vec![&message[at..]]))
}

/// Whether each of `others` is among `errors`, or was missed because its map was left early.
fn covers(errors: &[&str], others: &[&str]) -> bool {
    let abandoned: Vec<_> = errors.iter().copied().filter_map(map_of_undeclared_field).collect();
    others.iter().all(|other| {
        errors.contains(other)
            || abandoned
                .iter()
                .any(|map| other.strip_prefix(map).is_some_and(|rest| rest.starts_with('.')))
    })
}

/// The map whose undeclared field this is.
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
        let beside = ".metadata.odd: field not declared in schema";
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
            (&[bogus, beside], &[bogus]),
            (&[number, below], &[below]),
        ];
        for (a, b) in different {
            assert!(!are_equivalent(&message(a), &message(b)), "{a:?} {b:?}");
        }
        assert!(!are_equivalent(&message(&[bogus]), &message(&[bogus]).replace("ns/d", "ns/e")));
    }
}
