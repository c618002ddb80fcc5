//! The table of flags.

use super::{Action, Flag, Print, duration, names, positive, text, value};

pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "--kubeconfig",
        short: None,
        action: Action::Set {
            name: "FILE",
            set: |args, value| {
                args.kubeconfig = Some(value.into());
                Ok(())
            },
        },
        help: "Path to the kubeconfig [default: KUBECONFIG, the in-cluster service account, \
               ~/.kube/config]",
    },
    Flag {
        name: "--context",
        short: None,
        action: Action::Set { name: "NAME", set: |args, value| text(value, &mut args.context) },
        help: "Name of the kubeconfig context to use [default: the current context]",
    },
    Flag {
        name: "--namespace",
        short: None,
        action: Action::Set {
            name: "NAMES",
            set: |args, value| names(value, &mut args.namespaces),
        },
        help: "Namespaces to watch, separated by commas [default: all]",
    },
    Flag {
        name: "--kube-api-qps",
        short: None,
        action: Action::Set {
            name: "NUMBER",
            set: |args, value| positive(value, &mut args.kube_api_qps),
        },
        help: "Limit of requests per second to the API server [default: none; the API server \
               limits its clients]",
    },
    Flag {
        name: "--kube-api-burst",
        short: None,
        action: Action::Set {
            name: "NUMBER",
            set: |args, value| positive(value, &mut args.kube_api_burst),
        },
        help: "Requests that may exceed --kube-api-qps at once [default: twice that limit]",
    },
    Flag {
        name: "--metrics-bind-address",
        short: None,
        action: Action::Set {
            name: "ADDRESS",
            set: |args, value| self::value(value, &mut args.servers.metrics_bind_address),
        },
        help: "Address of /metrics, as in :8443 or 127.0.0.1:8080; 0 for none [default: :8443 in a \
               pod, else none]",
    },
    Flag {
        name: "--metrics-secure",
        short: None,
        action: Action::Switch(|args, secure| args.servers.metrics_secure = Some(secure)),
        help: "Serve /metrics over HTTPS to clients that may get it; false serves it to all \
               over HTTP [default: true, except on loopback]",
    },
    Flag {
        name: "--metrics-cert-path",
        short: None,
        action: Action::Set {
            name: "DIR",
            set: |args, value| {
                args.servers.metrics_cert_path = Some(value.into());
                Ok(())
            },
        },
        help: "Directory of the certificate of /metrics [default: a self-signed certificate]",
    },
    Flag {
        name: "--metrics-cert-name",
        short: None,
        action: Action::Set {
            name: "FILE",
            set: |args, value| text(value, &mut args.servers.metrics_cert_name),
        },
        help: "Name of the certificate in --metrics-cert-path [default: tls.crt]",
    },
    Flag {
        name: "--metrics-cert-key",
        short: None,
        action: Action::Set {
            name: "FILE",
            set: |args, value| text(value, &mut args.servers.metrics_cert_key),
        },
        help: "Name of the key in --metrics-cert-path [default: tls.key]",
    },
    Flag {
        name: "--health-probe-bind-address",
        short: None,
        action: Action::Set {
            name: "ADDRESS",
            set: |args, value| self::value(value, &mut args.servers.health_probe_bind_address),
        },
        help: "Address of /healthz and /readyz; 0 for none [default: :8081 in a pod, else none]",
    },
    Flag {
        name: "--log-level",
        short: None,
        action: Action::Set { name: "LEVEL", set: |args, value| text(value, &mut args.log_level) },
        help: "error, warn, info, debug, trace or off, for all targets or per target as in \
               info,my_operator=debug [env: RUST_LOG] [default: info]",
    },
    Flag {
        name: "--log-format",
        short: None,
        action: Action::Set {
            name: "FORMAT",
            set: |args, value| self::value(value, &mut args.log_format),
        },
        help: "text, or json with an object per line [default: text]",
    },
    Flag {
        name: "--leader-elect",
        short: None,
        action: Action::Switch(|args, value| args.leader_election.enabled = Some(value)),
        help: "Elect one of several replicas, which runs the controllers",
    },
    Flag {
        name: "--leader-election-id",
        short: None,
        action: Action::Set {
            name: "NAME",
            set: |args, value| text(value, &mut args.leader_election.id),
        },
        help: "Name of the Lease [default: the name of the operator]",
    },
    Flag {
        name: "--leader-election-namespace",
        short: None,
        action: Action::Set {
            name: "NAME",
            set: |args, value| text(value, &mut args.leader_election.namespace),
        },
        help: "Namespace of the Lease [default: that of the pod, else that of the context]",
    },
    Flag {
        name: "--leader-elect-lease-duration",
        short: None,
        action: Action::Set {
            name: "DURATION",
            set: |args, value| duration(value, &mut args.leader_election.lease_duration),
        },
        help: "How long standbys wait after the last renewal [default: 15s]",
    },
    Flag {
        name: "--leader-elect-renew-deadline",
        short: None,
        action: Action::Set {
            name: "DURATION",
            set: |args, value| duration(value, &mut args.leader_election.renew_deadline),
        },
        help: "How long after the last renewal the leader gives up [default: 10s]",
    },
    Flag {
        name: "--leader-elect-retry-period",
        short: None,
        action: Action::Set {
            name: "DURATION",
            set: |args, value| duration(value, &mut args.leader_election.retry_period),
        },
        help: "Interval of renewals and of attempts to acquire the Lease [default: 2s]",
    },
    Flag {
        name: "--webhook-port",
        short: None,
        action: Action::Set {
            name: "PORT",
            set: |args, value| self::value(value, &mut args.webhooks.port),
        },
        help: "Port of the webhook server, if there are webhooks; -1 disables it [default: 9443]",
    },
    Flag {
        name: "--webhook-bind-address",
        short: None,
        action: Action::Set {
            name: "ADDRESS",
            set: |args, value| self::value(value, &mut args.webhooks.bind_address),
        },
        help: "IP address that the webhook server listens on [default: all]",
    },
    Flag {
        name: "--webhook-cert-path",
        short: None,
        action: Action::Set {
            name: "DIR",
            set: |args, value| {
                args.webhooks.cert_path = Some(value.into());
                Ok(())
            },
        },
        help: "Directory of the certificate of the webhook server [default: the operator issues \
               its own]",
    },
    Flag {
        name: "--webhook-cert-name",
        short: None,
        action: Action::Set {
            name: "FILE",
            set: |args, value| text(value, &mut args.webhooks.cert_name),
        },
        help: "Name of the certificate file [default: tls.crt]",
    },
    Flag {
        name: "--webhook-cert-key",
        short: None,
        action: Action::Set {
            name: "FILE",
            set: |args, value| text(value, &mut args.webhooks.cert_key),
        },
        help: "Name of the key file [default: tls.key]",
    },
    Flag {
        name: "--print-crds",
        short: None,
        action: Action::Print(Print::Crds),
        help: "Print the CustomResourceDefinitions as YAML and exit",
    },
    Flag {
        name: "--help",
        short: Some("-h"),
        action: Action::Print(Print::Help),
        help: "Print this help and exit",
    },
    Flag {
        name: "--version",
        short: Some("-V"),
        action: Action::Print(Print::Version),
        help: "Print the version and exit",
    },
];
