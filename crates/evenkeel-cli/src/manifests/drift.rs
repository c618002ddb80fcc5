//! The difference between the rendered manifests and the files in a directory.

use std::path::Path;

use super::File;
use crate::output;

/// Prints the difference and exits with code 1 if there is one.
pub(super) fn check(directory: &Path, files: &[File]) -> anyhow::Result<()> {
    let mut differences = String::new();
    for file in files {
        let path = directory.join(&file.path);
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        differences.push_str(&diff(&path.display().to_string(), &found, &file.text));
    }
    if differences.is_empty() {
        output::progress(&format!("{} is up to date.", directory.display()));
        return Ok(());
    }
    output::print(&differences)?;
    output::progress(&format!(
        "{} differs from the operator\nhint: run `evenkeel manifests --output {}` with the same \
         --format",
        directory.display(),
        directory.display(),
    ));
    std::process::exit(1);
}

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Returns a unified diff, empty if the texts are equal.
pub(crate) fn diff(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // The common start and end are skipped, so that the table below stays small.
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let lines = edits(&old[start..old.len() - end], &new[start..new.len() - end]);
    let before = start.saturating_sub(CONTEXT);
    let after = CONTEXT.min(end);
    let (old_lines, new_lines) =
        (old.len() - end + after - before, new.len() - end + after - before);
    let mut text = format!("--- {name}\n+++ {name} (rendered)\n");
    text.push_str(&format!("@@ -{},{old_lines} +{},{new_lines} @@\n", before + 1, before + 1));
    text.extend(old[before..start].iter().map(|line| format!(" {line}\n")));
    text.extend(lines);
    let tail = old.len() - end;
    text.extend(old[tail..tail + after].iter().map(|line| format!(" {line}\n")));
    text
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
        let expected = "--- x\n+++ x (rendered)\n@@ -1,6 +1,7 @@\n a\n b\n c\n-d\n+D\n e\n f\n+g\n";
        assert_eq!(diff("x", old, new), expected);
        assert_eq!(diff("x", old, old), "");
        assert_eq!(diff("x", "", "a\n"), "--- x\n+++ x (rendered)\n@@ -1,0 +1,1 @@\n+a\n");
    }
}
