//! Reports tests that cannot run, because libtest counts them as passed.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// The variable with the file that skipped tests are listed in; `.ci/run` sets it.
const VARIABLE: &str = "EVENKEEL_SKIPPED";

/// Reports that `count` tests are skipped: on standard error, and as the line `count what: reason` of
/// the file that the variable `EVENKEEL_SKIPPED` names.
#[expect(clippy::print_stderr, reason = "the only output of a skipped test")]
pub fn report_skipped(count: usize, what: &str, reason: impl Display) {
    let line = line(count, what, &reason.to_string());
    eprint!("skipped: {line}");
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    if let Err(error) = append(Path::new(&path), &line) {
        eprintln!("cannot write to the file in {VARIABLE}: {error}");
    }
}

/// The reason may have several lines, of which the first names it.
fn line(count: usize, what: &str, reason: &str) -> String {
    format!("{count} {what}: {}\n", reason.lines().next().unwrap_or_default())
}

/// In one write, because tests of several processes append to the file.
fn append(path: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_one_line_each() {
        let name = format!("evenkeel-skipped-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        append(&path, &line(1, "a test", "no kubectl")).unwrap();
        append(&path, &line(6, "checks", "no etcd\nset KUBEBUILDER_ASSETS")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "1 a test: no kubectl\n6 checks: no etcd\n");
    }
}
