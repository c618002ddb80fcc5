//! Formats inserted code. Without rustfmt it stays as it is: it compiles as well.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Formats a file or items.
pub(super) fn items(text: &str) -> String {
    format(text).unwrap_or_else(|| text.to_owned())
}

/// Formats a statement, without indentation.
pub(super) fn statement(text: &str) -> String {
    let formatted = format(&format!("fn f() {{\n{text}\n}}\n"));
    let inner =
        formatted.as_deref().and_then(|it| it.strip_prefix("fn f() {\n")?.strip_suffix("}\n"));
    let Some(inner) = inner else { return text.to_owned() };
    let indent = inner.len() - inner.trim_start().len();
    let lines = inner.lines().map(|line| line.get(indent..).unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn format(text: &str) -> Option<String> {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    // Dropping the pipe closes it. The texts are small enough for its buffer.
    rustfmt.stdin.take()?.write_all(text.as_bytes()).ok()?;
    let output = rustfmt.wait_with_output().ok()?;
    let formatted = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !formatted.is_empty()).then_some(formatted)
}
