//! Predicts what simple commands do: sleep, succeed, fail.
//!
//! `kubectl create job nap --image=busybox -- sleep 30` is expected to take half a minute, and
//! `sh -c "exit 1"` to fail. A command that is not fully recognized has no known outcome.

use std::time::Duration;

/// When and how a container terminates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Exits(Duration, i32),
    RunsForever,
}

/// Returns the outcome of a command, if it is recognized.
pub(super) fn outcome(words: &[&str]) -> Option<Outcome> {
    match words {
        [shell, "-c", script] if matches!(base(shell), "sh" | "ash" | "bash") => run(script),
        _ => match statement(words)? {
            Effect::Takes(time) => Some(Outcome::Exits(time, 0)),
            Effect::Fails => Some(Outcome::Exits(Duration::ZERO, 1)),
            Effect::Never => Some(Outcome::RunsForever),
            Effect::Exits(_) => None,
        },
    }
}

/// The effect of one statement.
enum Effect {
    Takes(Duration),
    Fails,
    Exits(i32),
    Never,
}

/// Runs statements in sequence; those after `&&` only if all before succeeded.
fn run(script: &str) -> Option<Outcome> {
    let (mut time, mut code) = (Duration::ZERO, 0);
    for line in script.split([';', '\n']) {
        for (at, part) in line.split("&&").enumerate() {
            let words: Vec<&str> = part.split_whitespace().collect();
            if words.is_empty() && at == 0 && !line.contains("&&") {
                continue;
            }
            if at > 0 && code != 0 {
                // It has to be recognized even if it is not run.
                statement(&words)?;
                continue;
            }
            match statement(&words)? {
                Effect::Takes(more) => (time, code) = (time.checked_add(more)?, 0),
                Effect::Fails => code = 1,
                Effect::Exits(code) => return Some(Outcome::Exits(time, code)),
                Effect::Never => return Some(Outcome::RunsForever),
            }
        }
    }
    Some(Outcome::Exits(time, code))
}

fn statement(words: &[&str]) -> Option<Effect> {
    let (name, rest) = words.split_first()?;
    // Shell expansion, pipes and redirection are not recognized.
    let plain = |word: &&str| !word.contains(['$', '`', '|', '&', '<', '>', '(', ')', '*']);
    if !words.iter().all(plain) {
        return None;
    }
    match (base(name), rest) {
        ("sleep", ["infinity" | "inf"]) => Some(Effect::Never),
        ("sleep", [time]) => Some(Effect::Takes(seconds(time)?)),
        ("true" | ":", []) | ("echo", _) => Some(Effect::Takes(Duration::ZERO)),
        ("false", []) => Some(Effect::Fails),
        ("exit", []) => Some(Effect::Exits(0)),
        ("exit", [code]) => Some(Effect::Exits(i32::from(code.parse::<u8>().ok()?))),
        _ => None,
    }
}

/// Parses a number with an optional unit, as `sleep` does.
fn seconds(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let unit = match unit {
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => 1.0,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(seconds: u64, code: i32) -> Option<Outcome> {
        Some(Outcome::Exits(Duration::from_secs(seconds), code))
    }

    #[test]
    fn simple_commands_have_a_known_outcome() {
        assert_eq!(outcome(&["sleep", "30"]), ends(30, 0));
        assert_eq!(outcome(&["/bin/sleep", "2m"]), ends(120, 0));
        assert_eq!(outcome(&["sleep", "infinity"]), Some(Outcome::RunsForever));
        assert_eq!(outcome(&["/bin/false"]), ends(0, 1));
        assert_eq!(outcome(&["sh", "-c", "echo hello; sleep 5 && exit 3"]), ends(5, 3));
        assert_eq!(outcome(&["sh", "-c", "false && sleep 5\nsleep 1; "]), ends(1, 0));
        assert_eq!(outcome(&["/bin/sh", "-c", "exit 1"]), ends(0, 1));
    }

    #[test]
    fn unrecognized_commands_have_no_outcome() {
        let shell = |script| outcome(&["sh", "-c", script]);
        for script in ["sleep $TIME", "sleep 1 | cat", "sleep 1 & wait", "run; sleep 1", "&& true"]
        {
            assert_eq!(shell(script), None, "{script}");
        }
        for words in [&["sleep"][..], &["sleep", "-1"], &["sleep", "1e400"], &["nginx"]] {
            assert_eq!(outcome(words), None, "{words:?}");
        }
        assert_eq!(outcome(&["exit", "1"]), None, "exit is a shell builtin");
    }
}
