//! The flags, and what is printed about them.

use super::*;
use crate::webhook::{Certificates, WebhookOptions};

fn parsed(arguments: &[&str]) -> Result<Parsed, UsageError> {
    parse(arguments.iter().map(OsString::from), true)
}

#[test]
fn values_follow_their_flag_or_an_equals_sign() {
    let args = Args {
        kubeconfig: Some("/k=1".into()),
        context: Some("dev".to_owned()),
        log_level: Some("debug".to_owned()),
        ..Args::default()
    };
    let given = ["--kubeconfig=/k=1", "-context", "dev", "--log-level", "debug"];
    assert_eq!(parsed(&given), Ok(Parsed::Run(args)));
    assert_eq!(parsed(&[]), Ok(Parsed::Run(Args::default())));
}

#[test]
fn invalid_arguments_are_rejected_by_name() {
    let refused = |given: &[&str]| parsed(given).unwrap_err().to_string();
    assert_eq!(refused(&["--kubeconfg", "/k"]), "unknown flag --kubeconfg");
    assert_eq!(refused(&["--leader-election=true"]), "unknown flag --leader-election");
    let value = "--leader-elect: invalid value \"yes\": not true or false";
    assert_eq!(refused(&["--leader-elect=yes"]), value);
    for value in ["15", "-15s", "soon"] {
        let error = refused(&["--leader-elect-lease-duration", value]);
        let begin = format!("--leader-elect-lease-duration: invalid value {value:?}: ");
        assert!(error.starts_with(&begin), "{error}");
    }
    assert_eq!(refused(&["run"]), "unexpected argument \"run\"");
    assert_eq!(refused(&["--kubeconfig"]), "--kubeconfig needs a value");
    assert_eq!(refused(&["--context="]), "--context needs a value");
    assert_eq!(refused(&["--help=yes"]), "--help takes no value");
    assert_eq!(refused(&["--help", "--bogus"]), "unknown flag --bogus");
}

#[test]
fn values_are_parsed_and_invalid_ones_are_named() {
    let given = ["--namespace=shop, pay", "--log-format=json", "--kube-api-qps=2.5"];
    let args = Args {
        namespaces: Some(vec!["shop".to_owned(), "pay".to_owned()]),
        log_format: Some(LogFormat::Json),
        kube_api_qps: Some(2.5),
        ..Args::default()
    };
    let every = Duration::from_millis(400);
    assert_eq!(args.client_limit(), Some(TokenBucket { every, burst: 5 }));
    assert_eq!(parsed(&given), Ok(Parsed::Run(args)));
    let cases = [
        ("--log-format=xml", "--log-format: invalid value \"xml\": neither text nor json"),
        ("--kube-api-qps=-1", "--kube-api-qps: invalid value \"-1\": not a positive number"),
        ("--kube-api-burst=x", "--kube-api-burst: invalid value \"x\": not a positive number"),
        ("--namespace=,", "--namespace: invalid value \",\": it has no name"),
    ];
    for (given, expected) in cases {
        assert_eq!(parsed(&[given]).unwrap_err().to_string(), expected);
    }
}

#[test]
fn flags_of_webhooks_change_the_options() {
    let options = |given: &[&str]| match parsed(given) {
        Ok(Parsed::Run(args)) => format!("{:?}", args.webhooks.apply(WebhookOptions::new())),
        other => panic!("{other:?}"),
    };
    let expected = |options: WebhookOptions| format!("{options:?}");
    let given = ["--webhook-port=8443", "--webhook-bind-address", "::1"];
    let address = "::1".parse().unwrap();
    let same = WebhookOptions::new().port(8443).bind_address(address);
    assert_eq!(options(&given), expected(same));
    assert_eq!(options(&["--webhook-port", "-1"]), expected(WebhookOptions::new().disabled()));
    let files = Certificates::directory("/certs");
    let same = expected(WebhookOptions::new().certificates(files));
    assert_eq!(options(&["--webhook-cert-path=/certs"]), same);
    let given = ["--webhook-cert-path=/certs", "--webhook-cert-name=a", "--webhook-cert-key=b"];
    assert!(options(&given).contains("certificate: \"/certs/a\", key: \"/certs/b\""));
    let refused = parsed(&["--webhook-port=70000"]).unwrap_err().to_string();
    assert_eq!(refused, "--webhook-port: invalid value \"70000\": not a port, and not -1");
}

#[test]
fn flags_that_print_need_nothing_else() {
    assert_eq!(parsed(&["-h"]), Ok(Parsed::Print(Print::Help)));
    assert_eq!(parsed(&["--context", "dev", "-V"]), Ok(Parsed::Print(Print::Version)));
    assert_eq!(parsed(&["--print-crds"]), Ok(Parsed::Print(Print::Crds)));
    let without = parse(["--print-crds".into()], false);
    assert_eq!(without, Err(UsageError::UnknownFlag("--print-crds".to_owned())));
}

#[cfg(unix)]
#[test]
fn a_path_need_not_be_text() {
    use std::os::unix::ffi::OsStringExt as _;
    let path = OsString::from_vec(b"/k\xff".to_vec());
    let parsed = parse(["--kubeconfig".into(), path.clone()], false);
    let args = Args { kubeconfig: Some(path.clone().into()), ..Args::default() };
    assert_eq!(parsed, Ok(Parsed::Run(args)));
    let refused = parse(["--context".into(), path], false).unwrap_err();
    assert!(matches!(refused, UsageError::NotText { flag: "--context", .. }), "{refused}");
}

#[test]
fn help_lists_every_flag_within_its_width() {
    let text = help("greeter", true);
    assert!(text.starts_with("greeter: a Kubernetes operator\n\nUsage: greeter [OPTIONS]\n"));
    for flag in FLAGS {
        assert!(text.contains(flag.name), "{text}");
    }
    assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
    assert!(!help("greeter", false).contains("--print-crds"));
}
