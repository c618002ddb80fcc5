//! A running operator: its debug socket, and the commands that use it.
//!
//! `evenkeel run` and `evenkeel dev` start operators with a socket in the runtime directory of the
//! user. The other commands find it there by the name of the operator.

pub(crate) mod cache;

pub(crate) mod control;

pub(crate) mod queue;

pub(crate) mod socket;

pub(crate) mod top;

pub(crate) mod why;

use clap::Args;

/// The operator that a command is about.
#[derive(Args, Clone)]
pub(crate) struct OperatorArgs {
    /// Name of the operator, if several are running
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// Parses `KIND/NAME`.
///
/// # Errors
/// If there is no slash.
fn parse_object(object: &str) -> anyhow::Result<(&str, &str)> {
    match object.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok((kind, name)),
        _ => anyhow::bail!("invalid object {object:?}: expected KIND/NAME, for example web/sample"),
    }
}

/// Returns rows with aligned columns, the last one as it is.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns a duration as kubectl prints it.
fn short(seconds: f64) -> String {
    match seconds {
        _ if seconds < 0.001 => format!("{:.0}µs", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.0}ms", seconds * 1e3),
        _ if seconds < 10.0 => format!("{seconds:.1}s"),
        _ if seconds < 120.0 => format!("{seconds:.0}s"),
        _ if seconds < 7200.0 => format!("{:.0}m", seconds / 60.0),
        _ => format!("{:.0}h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_durations_short() {
        let rows = [vec!["NAME".to_owned(), "X".to_owned()], vec!["a".to_owned(), "b".to_owned()]];
        assert_eq!(table(&rows), "NAME  X\na     b\n");
        let texts = [0.000_2, 0.25, 2.0, 61.0, 600.0, 10_000.0].map(short);
        assert_eq!(texts, ["200µs", "250ms", "2.0s", "61s", "10m", "3h"]);
        assert!(parse_object("web").is_err() && parse_object("/x").is_err());
    }
}
