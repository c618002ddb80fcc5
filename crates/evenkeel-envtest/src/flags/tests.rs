//! Flag syntax that envtest and its users rely on.

use super::*;

const TABLE: &[Flag] = &[
    Flag::switch("help", "Print this help."),
    Flag::value("port", "int", "The port."),
    Flag::value("plugins", "strings", "The plugins."),
    Flag::switch("anonymous-auth", ""),
    Flag::value("v", "Level", ""),
];

fn parse(style: Style, line: &str) -> Result<Flags, Error> {
    Flags::parse(TABLE, style, line.split_whitespace().map(str::to_owned))
}

fn kubernetes(line: &str) -> Flags {
    parse(Style::Kubernetes, line).unwrap()
}

#[test]
fn value_may_follow_an_equals_sign_or_a_space() {
    for line in ["--port=1 --port=8443", "--port 8443", "--port -1 --port 8443"] {
        assert_eq!(kubernetes(line).value("port"), Ok(Some(8443)), "{line}");
    }
    assert_eq!(kubernetes("--port -1").text("port"), Some("-1"));
    assert_eq!(kubernetes("--port=").text("port"), None);
    assert_eq!(kubernetes("").value::<u16>("port"), Ok(None));
}

#[test]
fn value_with_equals_signs_is_kept_whole() {
    assert_eq!(kubernetes("--plugins=a=b").text("plugins"), Some("a=b"));
}

#[test]
fn lists_split_at_commas_and_accumulate() {
    let flags = kubernetes("--plugins=A,B --plugins C --plugins=");
    assert_eq!(flags.list("plugins"), ["A", "B", "C"]);
}

#[test]
fn switches_take_no_argument_after_a_space() {
    for (line, expected) in [
        ("--anonymous-auth", true),
        ("--anonymous-auth=false", false),
        ("--anonymous_auth=F", false),
        ("--anonymous-auth --port 1", true),
    ] {
        assert_eq!(kubernetes(line).switch("anonymous-auth", false), Ok(expected), "{line}");
    }
    assert_eq!(kubernetes("").switch("anonymous-auth", true), Ok(true));
    let error = parse(Style::Kubernetes, "--anonymous-auth true").unwrap_err();
    assert_eq!(error, Error::Positional("true".to_owned()));
    let maybe = kubernetes("--anonymous-auth=maybe").switch("anonymous-auth", true).unwrap_err();
    let expected = "invalid argument \"maybe\" for \"--anonymous-auth\" flag: not a boolean";
    assert_eq!(maybe.to_string(), expected);
}

#[test]
fn unknown_flags_are_ignored_with_their_values() {
    let flags =
        kubernetes("--audit-log-path - --audit-policy /x --profiling --port=1 --tracing=y -x 3");
    assert_eq!(
        flags.ignored().collect::<Vec<_>>(),
        ["audit-log-path", "audit-policy", "profiling", "tracing", "x"]
    );
    assert_eq!(flags.value("port"), Ok(Some(1)));
}

#[test]
fn single_letters_follow_one_dash() {
    for line in ["-v=4", "-v4", "-v 4", "--v=4"] {
        assert_eq!(kubernetes(line).value("v"), Ok(Some(4)), "{line}");
    }
    assert_eq!(kubernetes("-h").switch("help", false), Ok(true));
}

#[test]
fn etcd_accepts_one_dash_or_two() {
    for line in ["-port=1", "--port=1", "-port 1", "--port 1"] {
        assert_eq!(parse(Style::Etcd, line).unwrap().value("port"), Ok(Some(1)), "{line}");
    }
    assert_eq!(parse(Style::Etcd, "-h").unwrap().switch("help", false), Ok(true));
}

#[test]
fn missing_values_and_positional_arguments_are_errors() {
    let missing = parse(Style::Kubernetes, "--port").unwrap_err();
    assert_eq!(missing.to_string(), "flag needs an argument: --port");
    for line in ["word", "-", "--"] {
        let error = parse(Style::Kubernetes, line).unwrap_err();
        assert_eq!(error, Error::Positional(line.to_owned()));
    }
    let invalid = kubernetes("--port=x").value::<u16>("port").unwrap_err().to_string();
    assert!(invalid.starts_with("invalid argument \"x\" for \"--port\" flag: "), "{invalid}");
}

#[test]
fn help_lists_documented_flags() {
    let text = help(TABLE);
    assert_eq!(text.lines().count(), 3);
    assert!(text.lines().all(|line| line.starts_with("      --")), "{text}");
    assert!(text.contains("--port int ") && text.contains("The port."), "{text}");
}
