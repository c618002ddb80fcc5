//! Output of the commands: results go to stdout, progress and errors to stderr.

use std::io::Write as _;

/// Prints one line to stderr.
pub(crate) fn progress(line: &str) {
    // A closed stderr must not stop a command.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints text to stdout as it is.
///
/// # Errors
/// If stdout cannot be written to; a closed pipe (`| head`) ends the process successfully.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}

/// Prints a question on the terminal and reads the answer, y or n.
///
/// # Errors
/// If there is no terminal.
pub(crate) fn ask(question: &str) -> anyhow::Result<bool> {
    use std::io::{BufRead as _, IsTerminal as _};
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        anyhow::bail!("there is no terminal to confirm on; pass --yes");
    }
    let _ = write!(std::io::stderr(), "{question}");
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
