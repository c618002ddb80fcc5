//! Long files are named, with the reason why they are not split.

use super::Tree;

/// The longest a file may be without an exception, tests included.
const LONGEST: usize = 600;

/// The exceptions: `path lines reason`, where `lines` is the longest this file may become.
const EXCEPTIONS: &str = "sizes.txt";

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    let mut exceptions = tree.list(EXCEPTIONS);
    for source in tree.sources.iter().filter(|source| source.is_rust()) {
        let lines = source.text.lines().count();
        let found = exceptions.iter().position(|line| path_of(line) == source.path);
        let limit = match found.map(|index| exceptions.remove(index)) {
            None => LONGEST,
            Some(exception) => match limit_of(&exception) {
                Some(limit) if lines > LONGEST => limit,
                Some(_) => {
                    findings.push(format!("{}: no longer needs its exception", source.path));
                    continue;
                }
                None => {
                    findings.push(format!("{EXCEPTIONS}: not `path lines reason`: {exception}"));
                    continue;
                }
            },
        };
        if lines > limit {
            findings.push(format!("{}: {lines} lines, at most {limit}: split it", source.path));
        }
    }
    findings.extend(exceptions.iter().map(|line| format!("{EXCEPTIONS}: no such file: {line}")));
    findings
}

fn path_of(exception: &str) -> &str {
    exception.split_whitespace().next().unwrap_or_default()
}

/// The limit of an exception that is complete, with a reason.
fn limit_of(exception: &str) -> Option<usize> {
    let mut parts = exception.split_whitespace().skip(1);
    let limit = parts.next()?.parse().ok()?;
    parts.next().map(|_| limit)
}
