//! Output of the commands: results go to stdout, progress and errors to stderr.

use std::io::Write as _;

/// Prints one line to stderr.
pub(crate) fn progress(line: &str) {
    // A closed stderr must not stop a command.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Returns an error with its causes on one line, and the hints on lines of their own.
pub(crate) fn error(error: &anyhow::Error) -> String {
    let (mut message, mut hints) = (String::new(), String::new());
    for cause in error.chain() {
        let (text, complete) = text(cause);
        let (text, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        // Errors of other crates often include the text of their source.
        if !message.contains(text) {
            message.push_str(if message.is_empty() { "" } else { ": " });
            message.push_str(text);
        }
        if !hint.is_empty() {
            hints.push_str(&format!("\nhint: {hint}"));
        }
        if complete {
            break;
        }
    }
    message + &hints
}

/// Returns the text of an error, and whether it has that of its causes.
fn text(error: &(dyn std::error::Error + 'static)) -> (String, bool) {
    use evenkeel::kube::Error;
    match error.downcast_ref() {
        // Its text has all fields of the status.
        Some(Error::Api(status)) => return (status.message.clone(), true),
        Some(Error::Service(_)) => {
            let text = "cannot reach the API server\nhint: `evenkeel doctor` names the cluster, \
                        `evenkeel cluster start` starts one";
            return (text.to_owned(), false);
        }
        _ => {}
    }
    if let Some(error) = error.downcast_ref::<serde_saphyr::Error>() {
        // The lines after the first one show the place in the file.
        let text = error.to_string();
        return (text.strip_prefix("error: ").unwrap_or(&text).to_owned(), true);
    }
    (error.to_string(), false)
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

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    #[test]
    fn causes_are_printed_once_and_hints_at_the_end() {
        let cause = anyhow!("no such file\nhint: create it");
        let error = cause.context("cannot read a: no such file").context("no kubeconfig\nhint: x");
        let expected = "no kubeconfig: cannot read a: no such file\nhint: x\nhint: create it";
        assert_eq!(super::error(&error), expected);
        let plain = Err::<(), _>(anyhow!("a")).context("b").unwrap_err();
        assert_eq!(super::error(&plain), "b: a");
        let status = evenkeel::kube::core::Status::failure("pods \"x\" not found", "NotFound");
        let error = anyhow!(evenkeel::kube::Error::Api(Box::new(status))).context("cannot get x");
        assert_eq!(super::error(&error), "cannot get x: pods \"x\" not found");
        let yaml = serde_saphyr::from_str::<serde_json::Value>("a: [b").unwrap_err();
        let text = super::error(&anyhow!(yaml).context("cannot read a.yaml"));
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("cannot read a.yaml: line 1 column 4: unclosed"), "{text}");
        assert_eq!(text.matches("unclosed bracket").count(), 2, "{text}");
    }
}
