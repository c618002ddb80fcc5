//! Line diffs in the format of kube-apiserver.
//!
//! A unified diff with three lines of context, aligned by the Ratcliff/Obershelp algorithm: first
//! the longest common run of lines, then recursively on either side of it. Lines that are frequent
//! in a long text do not start a run; without this rule the output would often differ from
//! upstream's.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

const CONTEXT: usize = 3;

/// Maximum number of steps in the search for common runs, enough for texts that differ in a few
/// places. The algorithm is quadratic; runs not found by then are printed as changes.
const STEPS: usize = 20_000;
const STEPS_PER_LINE: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Equal,
    Change,
}

#[derive(Clone, Debug)]
struct Op {
    tag: Tag,
    a: Range<usize>,
    b: Range<usize>,
}

/// Returns the unified diff from `old` to `new`; empty if they are equal.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let a: Vec<&str> = old.split('\n').collect();
    let b: Vec<&str> = new.split('\n').collect();
    let mut out = String::new();
    for group in grouped(opcodes(&a, &b)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let _ = writeln!(
            out,
            "@@ -{} +{} @@",
            range(&(first.a.start..last.a.end)),
            range(&(first.b.start..last.b.end))
        );
        for op in &group {
            if op.tag == Tag::Equal {
                for line in &a[op.a.clone()] {
                    let _ = writeln!(out, " {line}");
                }
            } else {
                for line in &a[op.a.clone()] {
                    let _ = writeln!(out, "-{line}");
                }
                for line in &b[op.b.clone()] {
                    let _ = writeln!(out, "+{line}");
                }
            }
        }
    }
    out
}

fn range(lines: &Range<usize>) -> String {
    let start = lines.start + 1;
    match lines.len() {
        1 => start.to_string(),
        0 => format!("{},0", lines.start),
        n => format!("{start},{n}"),
    }
}

fn opcodes(a: &[&str], b: &[&str]) -> Vec<Op> {
    let mut ops: Vec<Op> = Vec::new();
    let (mut i, mut j) = (0, 0);
    let mut blocks = matching_blocks(a, b);
    blocks.push((a.len(), b.len(), 0));
    for (ai, bj, size) in blocks {
        if i < ai || j < bj {
            ops.push(Op { tag: Tag::Change, a: i..ai, b: j..bj });
        }
        if size > 0 {
            ops.push(Op { tag: Tag::Equal, a: ai..ai + size, b: bj..bj + size });
        }
        (i, j) = (ai + size, bj + size);
    }
    ops
}

/// Returns the common runs as `(start in a, start in b, length)`, in order, with adjacent runs
/// merged.
fn matching_blocks(a: &[&str], b: &[&str]) -> Vec<(usize, usize, usize)> {
    let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (j, line) in b.iter().enumerate() {
        positions.entry(line).or_default().push(j);
    }
    let frequent = b.len() / 100 + 1;
    if b.len() >= 200 {
        positions.retain(|_, at| at.len() <= frequent);
    }

    let mut found = Vec::new();
    let mut open = vec![(0..a.len(), 0..b.len())];
    let mut steps = STEPS + STEPS_PER_LINE * (a.len() + b.len());
    while let Some((in_a, in_b)) = open.pop() {
        let (i, j, size) = longest_match(a, b, &positions, &in_a, &in_b, &mut steps);
        if size == 0 {
            continue;
        }
        found.push((i, j, size));
        if in_a.start < i && in_b.start < j {
            open.push((in_a.start..i, in_b.start..j));
        }
        if i + size < in_a.end && j + size < in_b.end {
            open.push((i + size..in_a.end, j + size..in_b.end));
        }
    }
    found.sort_unstable();

    let mut merged: Vec<(usize, usize, usize)> = Vec::new();
    for (i, j, size) in found {
        match merged.last_mut() {
            Some((mi, mj, msize)) if *mi + *msize == i && *mj + *msize == j => *msize += size,
            _ => merged.push((i, j, size)),
        }
    }
    merged
}

fn longest_match(
    a: &[&str],
    b: &[&str],
    positions: &HashMap<&str, Vec<usize>>,
    in_a: &Range<usize>,
    in_b: &Range<usize>,
    steps: &mut usize,
) -> (usize, usize, usize) {
    let (mut best_i, mut best_j, mut best) = (in_a.start, in_b.start, 0);
    // Lengths of the runs that end at a line of b and the previous line of a.
    let mut runs: HashMap<usize, usize> = HashMap::new();
    for (i, line) in a.iter().enumerate().take(in_a.end).skip(in_a.start) {
        let mut next = HashMap::new();
        let positions = positions.get(line).map(Vec::as_slice).unwrap_or_default();
        let positions = &positions[positions.partition_point(|&j| j < in_b.start)..];
        let positions = &positions[..positions.partition_point(|&j| j < in_b.end)];
        match steps.checked_sub(1 + positions.len()) {
            Some(left) => *steps = left,
            None => break,
        }
        for &j in positions {
            let length = 1 + j.checked_sub(1).and_then(|p| runs.get(&p)).copied().unwrap_or(0);
            next.insert(j, length);
            if length > best {
                (best_i, best_j, best) = (i + 1 - length, j + 1 - length, length);
            }
        }
        runs = next;
    }
    // Frequent lines do not start a run but may extend one.
    while best_i > in_a.start && best_j > in_b.start && a[best_i - 1] == b[best_j - 1] {
        (best_i, best_j, best) = (best_i - 1, best_j - 1, best + 1);
    }
    while best_i + best < in_a.end
        && best_j + best < in_b.end
        && a[best_i + best] == b[best_j + best]
    {
        best += 1;
    }
    (best_i, best_j, best)
}

/// Splits the operations where more than twice the context is unchanged.
fn grouped(mut ops: Vec<Op>) -> Vec<Vec<Op>> {
    if let Some(first) = ops.first_mut()
        && first.tag == Tag::Equal
    {
        let skip = first.a.len().saturating_sub(CONTEXT);
        first.a.start += skip;
        first.b.start += skip;
    }
    if let Some(last) = ops.last_mut()
        && last.tag == Tag::Equal
    {
        let skip = last.a.len().saturating_sub(CONTEXT);
        last.a.end -= skip;
        last.b.end -= skip;
    }
    let mut groups = Vec::new();
    let mut group: Vec<Op> = Vec::new();
    for op in ops {
        if op.tag == Tag::Equal && op.a.len() > 2 * CONTEXT {
            let (a, b) = (&op.a, &op.b);
            group.push(Op {
                tag: Tag::Equal,
                a: a.start..a.start + CONTEXT,
                b: b.start..b.start + CONTEXT,
            });
            groups.push(std::mem::take(&mut group));
            group.push(Op {
                tag: Tag::Equal,
                a: a.end - CONTEXT..a.end,
                b: b.end - CONTEXT..b.end,
            });
        } else {
            group.push(op);
        }
    }
    if group.iter().any(|op| op.tag == Tag::Change) {
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn changes_show_with_three_lines_of_context() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13";
        let expected = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
                        @@ -10,3 +10,4 @@\n 10\n 11\n 12\n+13\n";
        assert_eq!(unified(old, new), expected);
    }

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(unified("a\nb", "a\nb"), "");
    }
}
