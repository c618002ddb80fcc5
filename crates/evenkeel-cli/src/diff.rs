//! Unified diffs of texts.

use std::ops::Range;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Returns a unified diff, empty if the texts are equal.
pub(crate) fn unified(old_name: &str, new_name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // The common start and end are skipped, so that the table below stays small.
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let same = |line: &&str| format!(" {line}\n");
    let mut lines: Vec<String> = old[..start].iter().map(same).collect();
    lines.extend(edits(&old[start..old.len() - end], &new[start..new.len() - end]));
    lines.extend(old[old.len() - end..].iter().map(same));
    let mut text = format!("--- {old_name}\n+++ {new_name}\n");
    let (mut done, mut old_line, mut new_line) = (0, 0, 0);
    for Range { start, end } in hunks(&lines) {
        // The lines between hunks are common.
        old_line += start - done;
        new_line += start - done;
        let count = |other| lines[start..end].iter().filter(|it| !it.starts_with(other)).count();
        let (old_lines, new_lines) = (count('+'), count('-'));
        // A range without lines begins at the line before it.
        let first = |line: usize, lines: usize| if lines == 0 { line } else { line + 1 };
        text.push_str(&format!(
            "@@ -{},{old_lines} +{},{new_lines} @@\n",
            first(old_line, old_lines),
            first(new_line, new_lines)
        ));
        text.extend(lines[start..end].iter().map(String::as_str));
        (done, old_line, new_line) = (end, old_line + old_lines, new_line + new_lines);
    }
    text
}

/// Returns the ranges of lines around changes.
fn hunks(lines: &[String]) -> Vec<Range<usize>> {
    let mut hunks = Vec::<Range<usize>>::new();
    for (index, _) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with(' ')) {
        let end = (index + 1 + CONTEXT).min(lines.len());
        match hunks.last_mut() {
            Some(last) if index <= last.end + CONTEXT => last.end = end,
            _ => hunks.push(index.saturating_sub(CONTEXT)..end),
        }
    }
    hunks
}

/// Returns the changed lines, found by the longest common subsequence.
fn edits(old: &[&str], new: &[&str]) -> Vec<String> {
    /// Beyond this many cells the lines are shown as removed and added.
    const CELLS: usize = 4_000_000;
    let remove = |line: &&str| format!("-{line}\n");
    let add = |line: &&str| format!("+{line}\n");
    if old.len().saturating_mul(new.len()) > CELLS {
        return old.iter().map(remove).chain(new.iter().map(add)).collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(format!(" {}\n", old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            lines.push(remove(&old[i]));
            i += 1;
        } else {
            lines.push(add(&new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_with_their_context() {
        let old = "a\nb\nc\nd\ne\nf\n";
        let new = "a\nb\nc\nD\ne\nf\ng\n";
        let expected = "--- x\n+++ y\n@@ -1,6 +1,7 @@\n a\n b\n c\n-d\n+D\n e\n f\n+g\n";
        assert_eq!(unified("x", "y", old, new), expected);
        assert_eq!(unified("x", "y", old, old), "");
        assert_eq!(unified("x", "y", "", "a\n"), "--- x\n+++ y\n@@ -0,0 +1,1 @@\n+a\n");
    }

    #[test]
    fn distant_changes_are_separate_hunks() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let new = old.replace("2\n3\n", "2\nnew\n3\n").replace("18\n", "");
        let expected = "--- x\n+++ y\n@@ -1,5 +1,6 @@\n 1\n 2\n+new\n 3\n 4\n 5\n\
                        @@ -15,6 +16,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n";
        assert_eq!(unified("x", "y", &old, &new), expected);
    }
}
