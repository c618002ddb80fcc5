//! The command line that envtest builds, and invalid ones.

use super::*;
use crate::flags::Style;

fn config(arguments: &[&str]) -> Result<Config, Error> {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned());
    Config::from_flags(&Flags::parse(FLAGS, Style::Kubernetes, arguments)?, |_| None)
}

#[test]
fn envtest_command_line_is_parsed() {
    let config = config(&[
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        "--cert-dir=/tmp/k8s_test_framework_1",
        "--client-ca-file=/tmp/k8s_test_framework_1/client-cert-auth-ca.crt",
        "--disable-admission-plugins=ServiceAccount",
        "--etcd-servers=http://127.0.0.1:41235",
        "--secure-port=37157",
        "--service-account-issuer=https://127.0.0.1:37157/",
        "--service-account-key-file=/tmp/k8s_test_framework_1/sa-signer.crt",
        "--service-account-signing-key-file=/tmp/k8s_test_framework_1/sa-signer.key",
        "--service-cluster-ip-range=10.0.0.0/24",
    ])
    .unwrap();
    assert_eq!(
        config.serving,
        ListenerConfig {
            bind_address: Ipv4Addr::LOCALHOST.into(),
            secure_port: 37157,
            allow_non_loopback: false,
            cert_dir: Some("/tmp/k8s_test_framework_1".into()),
            tls_pair: None,
            client_ca_file: Some("/tmp/k8s_test_framework_1/client-cert-auth-ca.crt".into()),
            token_auth_file: None,
        }
    );
    assert_eq!(config.settings.disable_admission_plugins, ["ServiceAccount"]);
    assert_eq!(config.settings.authorization_modes, [AuthorizationMode::Rbac]);
    assert_eq!(config.settings.service_account_issuers, ["https://127.0.0.1:37157/"]);
    assert!(config.settings.anonymous_auth);
}

#[test]
fn authorizers_are_known_and_implemented() {
    use AuthorizationMode::{AlwaysAllow, AlwaysDeny, Node, Rbac};
    let modes = |flag: &str| config(&[flag]).map(|config| config.settings.authorization_modes);
    assert_eq!(modes("--authorization-mode="), Ok(vec![AlwaysAllow]));
    assert_eq!(modes("--authorization-mode=Node,RBAC"), Ok(vec![Node, Rbac]));
    assert_eq!(modes("--authorization-mode=AlwaysDeny"), Ok(vec![AlwaysDeny]));
    for (flag, expected) in [
        ("--authorization-mode=Foo", r#"authorization-mode "Foo" is not a valid mode"#),
        (
            "--authorization-mode=RBAC,ABAC",
            "--authorization-mode=ABAC is not supported by Evenkeel",
        ),
        (
            "--authorization-mode=Webhook",
            "--authorization-mode=Webhook is not supported by Evenkeel",
        ),
        ("--authorization-config=x", "--authorization-config is not supported by Evenkeel"),
        (
            "--authorization-mode=RBAC,RBAC",
            r#"authorization-mode ["RBAC" "RBAC"] has mode specified more than once"#,
        ),
    ] {
        assert_eq!(modes(flag).unwrap_err().to_string(), expected);
    }
}

#[test]
fn defaults_bind_to_loopback() {
    let config = config(&[]).unwrap();
    assert_eq!(config.serving.bind_address, Ipv4Addr::LOCALHOST);
    assert_eq!(config.serving.secure_port, 6443);
    assert!(!config.settings.allow_remote_webhooks);
    assert_eq!(config.settings.service_cidrs[0].to_string(), "10.0.0.0/24");
}

#[test]
fn remote_webhooks_are_called_on_request() {
    let config = config(&["--evenkeel-allow-remote-webhooks"]).unwrap();
    assert!(config.settings.allow_remote_webhooks);
}

#[test]
fn always_allow_disables_anonymous_auth() {
    let anonymous = |flags: &[&str]| config(flags).unwrap().settings.anonymous_auth;
    assert!(anonymous(&["--authorization-mode=RBAC"]));
    assert!(!anonymous(&["--authorization-mode=RBAC", "--anonymous-auth=false"]));
    assert!(!anonymous(&["--authorization-mode=RBAC,AlwaysAllow"]));
    assert!(!anonymous(&["--anonymous-auth=true"]));
}

#[test]
fn compaction_interval_is_a_go_duration() {
    let interval = |text: &str| {
        config(&[&format!("--etcd-compaction-interval={text}")])
            .map(|config| config.settings.compaction_interval)
    };
    assert_eq!(interval("1m30s").unwrap(), Some(std::time::Duration::from_secs(90)));
    assert_eq!(interval("0").unwrap(), Some(std::time::Duration::ZERO));
    assert_eq!(
        interval("soon").unwrap_err().to_string(),
        "invalid argument \"soon\" for \"--etcd-compaction-interval\" flag: time: invalid \
         duration \"soon\""
    );
}

#[test]
fn limits_of_requests_in_flight_are_numbers_and_zero_is_no_limit() {
    let limits = |flags: &[&str]| {
        config(flags).map(|Config { settings, .. }| {
            (settings.max_requests_in_flight, settings.max_mutating_requests_in_flight)
        })
    };
    assert_eq!(limits(&[]).unwrap(), (None, None));
    let given = ["--max-requests-inflight=50", "--max-mutating-requests-inflight", "0"];
    assert_eq!(limits(&given).unwrap(), (Some(50), Some(usize::MAX)));
    assert_eq!(
        limits(&["--max-mutating-requests-inflight=-1"]).unwrap_err().to_string(),
        "invalid argument \"-1\" for \"--max-mutating-requests-inflight\" flag: can not be \
         negative value"
    );
    assert!(limits(&["--max-requests-inflight=many"]).is_err());
}

#[test]
fn kubernetes_service_gets_the_first_address_of_each_range() {
    let config = config(&["--service-cluster-ip-range=10.96.3.7/16,fd00:1::/108"]).unwrap();
    let first: Vec<_> =
        config.settings.service_cidrs.iter().map(ServiceCidr::first_address).collect();
    assert_eq!(first, ["10.96.0.1".parse::<IpAddr>().unwrap(), "fd00:1::1".parse().unwrap()]);
}

#[test]
fn invalid_service_cidrs_are_rejected() {
    for text in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/32", "::/128", "x/8", "10.0.0.0/-1", "/"] {
        assert_eq!(text.parse::<ServiceCidr>(), Err(InvalidCidr(text.to_owned())));
    }
    assert_eq!("0.0.0.0/0".parse::<ServiceCidr>().unwrap().first_address().to_string(), "0.0.0.1");
    let error = config(&["--service-cluster-ip-range=10.0.0.0"]).unwrap_err().to_string();
    let expected = "invalid argument \"10.0.0.0\" for \"--service-cluster-ip-range\" flag: \
                    invalid CIDR address: 10.0.0.0";
    assert_eq!(error, expected);
}

#[test]
fn tls_cert_without_key_is_rejected() {
    let error = config(&["--tls-cert-file=a"]).unwrap_err();
    assert_eq!(error, Error::MissingValue("tls-private-key-file".to_owned()));
    let pair = config(&["--tls-cert-file=a", "--tls-private-key-file=b"]).unwrap().serving.tls_pair;
    assert_eq!(pair, Some(("a".into(), "b".into())));
}

#[test]
fn help_does_not_list_insecure_port() {
    assert!(FLAGS.iter().all(|flag| !flag.name.starts_with("insecure-port")));
}

#[test]
fn runtime_config_enables_and_disables_apis() {
    let parsed = config(&["--runtime-config=api/beta,apps/v1=false"]).unwrap();
    let expected = [("api/beta".to_owned(), true), ("apps/v1".to_owned(), false)];
    assert_eq!(parsed.settings.runtime_config, expected);
    assert!(config(&["--runtime-config=apps/v1=maybe"]).is_err());
}

#[test]
fn faults_come_from_the_flag_or_else_from_the_environment() {
    let settings = |arguments: &[&str]| {
        let arguments = arguments.iter().map(ToString::to_string);
        let flags = Flags::parse(FLAGS, Style::Kubernetes, arguments).unwrap();
        let variable = |name: &str| (name == "EVENKEEL_FAULTS").then(|| "of-variable".into());
        Config::from_flags(&flags, variable).unwrap().settings
    };
    assert_eq!(settings(&[]).faults_file, Some("of-variable".into()));
    let given = settings(&["--evenkeel-faults=a", "--evenkeel-faults-log=b"]);
    assert_eq!((given.faults_file, given.faults_log_path), (Some("a".into()), Some("b".into())));
    assert_eq!(config(&[]).unwrap().settings.faults_file, None);
}
