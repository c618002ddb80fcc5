//! Generators and checks of the workspace itself: `cargo run -p xtask -- <task>`.

mod types;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- <task>

tasks:
  types    write the table of built-in types (crates/evenkeel-types/src/table/types.txt)";

#[expect(clippy::print_stderr, reason = "a command line tool talks to its user")]
fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    let done = match task.as_deref() {
        Some("types") => types::write(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
