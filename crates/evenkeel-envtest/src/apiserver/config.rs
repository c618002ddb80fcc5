//! The flags of kube-apiserver that are supported, parsed into a [`Config`].

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use evenkeel_apiserver::AuthorizationMode;
use evenkeel_apiserver::audit::LogOptions;
use evenkeel_types::go::quote_list;

use crate::flags::{self, Error, Flag, Flags};

/// The parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The settings of the listener.
    pub serving: ListenerConfig,
    /// The settings of the API server.
    pub settings: ServerConfig,
}

/// The settings of the listener: address, certificates, authentication files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerConfig {
    /// The address to bind; loopback by default, unlike upstream.
    pub bind_address: IpAddr,
    /// The port to bind; 0 selects a free port.
    pub secure_port: u16,
    /// Whether `bind_address` may be reachable from other machines.
    pub allow_non_loopback: bool,
    /// The directory of `apiserver.crt` and `apiserver.key`, which are generated if absent.
    pub cert_dir: Option<PathBuf>,
    /// A certificate and key that take precedence over `cert_dir`.
    pub tls_pair: Option<(PathBuf, PathBuf)>,
    /// The CA bundle that client certificates are verified with.
    pub client_ca_file: Option<PathBuf>,
    /// The static token file.
    pub token_auth_file: Option<PathBuf>,
}

/// The settings of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Whether requests without credentials are authenticated as `system:anonymous`.
    pub anonymous_auth: bool,
    /// The authorizers, in order.
    pub authorization_modes: Vec<AuthorizationMode>,
    /// Admission plugins to enable in addition to the default ones.
    pub enable_admission_plugins: Vec<String>,
    /// Admission plugins to disable.
    pub disable_admission_plugins: Vec<String>,
    /// Built-in APIs to enable or disable.
    pub runtime_config: Vec<(String, bool)>,
    /// Whether webhooks on other machines are called.
    pub allow_remote_webhooks: bool,
    /// The CIDR ranges that Service cluster IPs are allocated from.
    pub service_cidrs: Vec<ServiceCidr>,
    /// The issuers of service account tokens; the first one signs.
    pub service_account_issuers: Vec<String>,
    /// The interval of compactions; the server's default if `None`.
    pub compaction_interval: Option<Duration>,
    /// How long events are kept; the server's default if `None`.
    pub event_ttl: Option<Duration>,
    /// How many reading requests are served at once; the server's default if none.
    pub max_requests_in_flight: Option<usize>,
    /// How many writing requests are served at once; the server's default if none.
    pub max_mutating_requests_in_flight: Option<usize>,
    /// The audit policy; without it nothing is recorded.
    pub audit_policy_file: Option<PathBuf>,
    /// The file of the audit log, or `-` for the standard output.
    pub audit_log_path: Option<PathBuf>,
    /// How the audit log is rotated.
    pub audit_log: LogOptions,
    /// The keys that verify service account tokens.
    pub service_account_key_files: Vec<PathBuf>,
    /// The key that signs service account tokens.
    pub service_account_signing_key_file: Option<PathBuf>,
    /// The audiences of the API server; the issuers if empty.
    pub api_audiences: Vec<String>,
    /// The longest lifetime of a service account token.
    pub service_account_max_token_expiration: Option<Duration>,
    /// Whether tokens that pods request by default are valid for a year.
    pub service_account_extend_token_expiration: bool,
    /// The URL of the key set in the discovery document, if not that of the server.
    pub service_account_jwks_uri: Option<String>,
    /// The plan of the faults to inject; without it none are.
    pub faults_file: Option<PathBuf>,
    /// The file that injected faults are logged to; standard error if `None`.
    pub faults_log_path: Option<PathBuf>,
}

/// The environment variables of flags, for test suites that do not set flags.
const FAULTS: &str = "EVENKEEL_FAULTS";
const FAULTS_LOG: &str = "EVENKEEL_FAULTS_LOG";

/// A range of Service addresses in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCidr {
    network: IpAddr,
    prefix: u8,
}

/// A text that is not a CIDR range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid CIDR address: {0}")]
pub struct InvalidCidr(String);

const AUTHORIZATION_CONFIG: &str = "authorization-config";

/// No name may start with `insecure-port`: envtest then assumes a server older than 1.24.
pub(super) const FLAGS: &[Flag] = &[
    Flag::switch("help", "Print this help and exit."),
    Flag::switch("version", "Print the version and exit."),
    Flag::value("bind-address", "ip", "IP address to listen on. Default: 127.0.0.1."),
    Flag::value("secure-port", "int", "Port to listen on; 0 selects a free port. Default: 6443."),
    Flag::switch(
        "evenkeel-allow-non-loopback",
        "Allow a --bind-address that other machines can reach.",
    ),
    Flag::switch(
        "evenkeel-allow-remote-webhooks",
        "Call webhooks on other machines, too, not only on loopback addresses.",
    ),
    Flag::value(
        "cert-dir",
        "dir",
        "Directory of apiserver.crt and apiserver.key, which are generated if absent.",
    ),
    Flag::value("tls-cert-file", "file", "Serving certificate, instead of the one in --cert-dir."),
    Flag::value("tls-private-key-file", "file", "Private key of --tls-cert-file."),
    Flag::value("client-ca-file", "file", "CA bundle that client certificates are verified with."),
    Flag::value(
        "token-auth-file",
        "file",
        "Static bearer tokens: token,user,uid,\"group1,group2\".",
    ),
    Flag::switch(
        "anonymous-auth",
        "Authenticate requests without credentials as system:anonymous. Default: true; always \
         false if --authorization-mode contains AlwaysAllow.",
    ),
    Flag::value(
        "authorization-mode",
        "strings",
        "Authorizers, in order: AlwaysAllow, AlwaysDeny, Node, RBAC. Default: AlwaysAllow.",
    ),
    Flag::value(AUTHORIZATION_CONFIG, "file", "Rejected; use --authorization-mode."),
    Flag::value("enable-admission-plugins", "strings", "Admission plugins to enable."),
    Flag::value("disable-admission-plugins", "strings", "Admission plugins to disable."),
    Flag::value(
        "runtime-config",
        "strings",
        "Built-in APIs to enable or disable: storagemigration.k8s.io/v1beta1=true, api/beta=true.",
    ),
    Flag::value(
        "service-cluster-ip-range",
        "cidrs",
        "CIDR ranges of Service cluster IPs. Default: 10.0.0.0/24.",
    ),
    Flag::value("event-ttl", "duration", "How long events are kept. Default: 1h."),
    Flag::value("service-account-issuer", "strings", "Issuers of service account tokens."),
    Flag::value("service-account-key-file", "files", "Keys to verify service account tokens with."),
    Flag::value(
        "service-account-signing-key-file",
        "file",
        "Key to sign service account tokens with.",
    ),
    Flag::value("api-audiences", "strings", "Audiences of the API server. Default: the issuers."),
    Flag::value(
        "service-account-max-token-expiration",
        "duration",
        "Longest lifetime of a service account token.",
    ),
    Flag::switch(
        "service-account-extend-token-expiration",
        "Whether tokens that pods request by default are valid for a year. Default: true.",
    ),
    Flag::value(
        "service-account-jwks-uri",
        "url",
        "URL of the key set in the discovery document, if not that of this server.",
    ),
    Flag::value(
        "etcd-compaction-interval",
        "duration",
        "Interval of compactions; 0 disables them. Default: 5m0s.",
    ),
    Flag::value(
        "max-requests-inflight",
        "int",
        "Reading requests served at once, watches excluded; no limit if 0. Default: 400.",
    ),
    Flag::value(
        "max-mutating-requests-inflight",
        "int",
        "Writing requests served at once; no limit if 0. Default: 200.",
    ),
    Flag::value("audit-policy-file", "file", "Audit policy; without it nothing is recorded."),
    Flag::value("audit-log-path", "file", "File of the audit log; - is the standard output."),
    Flag::value("audit-log-format", "format", "Format of the audit log: json."),
    Flag::value("audit-log-maxsize", "int", "Megabytes of the audit log. Default: 100."),
    Flag::value("audit-log-maxage", "int", "Days to keep rotated audit logs. Default: 366."),
    Flag::value("audit-log-maxbackup", "int", "Rotated audit logs to keep. Default: 100."),
    Flag::value(
        "evenkeel-faults",
        "file",
        "Plan of faults to inject into requests. Default: the variable EVENKEEL_FAULTS, or none.",
    ),
    Flag::value(
        "evenkeel-faults-log",
        "file",
        "File to append injected faults to. Default: the variable EVENKEEL_FAULTS_LOG, or stderr.",
    ),
    Flag::value("etcd-servers", "urls", "Ignored; storage is built in."),
    Flag::switch("allow-privileged", "Ignored; privileged containers are always allowed."),
    Flag::value("v", "level", "Ignored."),
];

impl Config {
    /// Returns the configuration of a command line. `variable` returns the value of an environment
    /// variable, unless it is empty.
    pub(super) fn from_flags(
        flags: &Flags,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, Error> {
        let path = |name| flags.text(name).map(PathBuf::from);
        let tls_pair = match (path("tls-cert-file"), path("tls-private-key-file")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(Error::MissingValue("tls-private-key-file".to_owned())),
            (None, Some(_)) => return Err(Error::MissingValue("tls-cert-file".to_owned())),
        };
        let serving = ListenerConfig {
            bind_address: flags.value("bind-address")?.unwrap_or(Ipv4Addr::LOCALHOST.into()),
            secure_port: flags.value("secure-port")?.unwrap_or(6443),
            allow_non_loopback: flags.switch("evenkeel-allow-non-loopback", false)?,
            cert_dir: path("cert-dir"),
            tls_pair,
            client_ca_file: path("client-ca-file"),
            token_auth_file: path("token-auth-file"),
        };
        let authorization_modes = authorization_modes(flags)?;
        // Upstream disables anonymous authentication when the AlwaysAllow authorizer is used.
        let always_allow = authorization_modes.contains(&AuthorizationMode::AlwaysAllow);
        let settings = ServerConfig {
            anonymous_auth: flags.switch("anonymous-auth", true)? && !always_allow,
            authorization_modes,
            enable_admission_plugins: flags.list("enable-admission-plugins"),
            disable_admission_plugins: flags.list("disable-admission-plugins"),
            runtime_config: runtime_config(flags)?,
            allow_remote_webhooks: flags.switch("evenkeel-allow-remote-webhooks", false)?,
            service_cidrs: service_cidrs(flags)?,
            compaction_interval: duration(flags, "etcd-compaction-interval")?,
            event_ttl: duration(flags, "event-ttl")?,
            max_requests_in_flight: limit(flags, "max-requests-inflight")?,
            max_mutating_requests_in_flight: limit(flags, "max-mutating-requests-inflight")?,
            audit_policy_file: path("audit-policy-file"),
            audit_log_path: path("audit-log-path"),
            audit_log: audit_log(flags)?,
            // Repeatable, but not split at commas: an issuer may contain one.
            service_account_issuers: flags
                .all("service-account-issuer")
                .map(str::to_owned)
                .collect(),
            service_account_key_files: flags
                .all("service-account-key-file")
                .map(PathBuf::from)
                .collect(),
            service_account_signing_key_file: path("service-account-signing-key-file"),
            api_audiences: flags.list("api-audiences"),
            service_account_max_token_expiration: duration(
                flags,
                "service-account-max-token-expiration",
            )?
            .filter(|max| !max.is_zero()),
            service_account_extend_token_expiration: flags
                .switch("service-account-extend-token-expiration", true)?,
            service_account_jwks_uri: flags.text("service-account-jwks-uri").map(str::to_owned),
            faults_file: path("evenkeel-faults").or_else(|| variable(FAULTS)),
            faults_log_path: path("evenkeel-faults-log").or_else(|| variable(FAULTS_LOG)),
        };
        Ok(Self { serving, settings })
    }
}

/// Reads the authorizers. Those that are not implemented are an error: without them, requests that
/// they deny would be allowed.
fn authorization_modes(flags: &Flags) -> Result<Vec<AuthorizationMode>, Error> {
    const FLAG: &str = "authorization-mode";
    if flags.text(AUTHORIZATION_CONFIG).is_some() {
        let why = format!("--{AUTHORIZATION_CONFIG} is not supported by Evenkeel");
        return Err(Error::Rejected(why));
    }
    let names = flags.list(FLAG);
    let mut modes = Vec::new();
    for name in &names {
        let mode = match name.as_str() {
            "AlwaysAllow" => AuthorizationMode::AlwaysAllow,
            "AlwaysDeny" => AuthorizationMode::AlwaysDeny,
            "Node" => AuthorizationMode::Node,
            "RBAC" => AuthorizationMode::Rbac,
            "ABAC" | "Webhook" => {
                let why = format!("--{FLAG}={name} is not supported by Evenkeel");
                return Err(Error::Rejected(why));
            }
            _ => return Err(Error::Rejected(format!("{FLAG} {name:?} is not a valid mode"))),
        };
        if modes.contains(&mode) {
            let all = quote_list(names.iter().map(String::as_str));
            let why = format!("{FLAG} {all} has mode specified more than once");
            return Err(Error::Rejected(why));
        }
        modes.push(mode);
    }
    Ok(if modes.is_empty() { vec![AuthorizationMode::AlwaysAllow] } else { modes })
}

fn audit_log(flags: &Flags) -> Result<LogOptions, Error> {
    const FORMAT: &str = "audit-log-format";
    if let Some(other) = flags.text(FORMAT).filter(|format| *format != "json") {
        return Err(Error::Invalid {
            flag: FORMAT.to_owned(),
            value: other.to_owned(),
            reason: "the only format is json".to_owned(),
        });
    }
    let mut options = LogOptions::default();
    if let Some(megabytes) = flags.value("audit-log-maxsize")? {
        options.max_size = megabytes;
    }
    if let Some(days) = flags.value("audit-log-maxage")? {
        options.max_age = days;
    }
    if let Some(files) = flags.value("audit-log-maxbackup")? {
        options.max_backups = files;
    }
    Ok(options)
}

/// Reads entries such as `apps/v1=false`; without a value they enable.
fn runtime_config(flags: &Flags) -> Result<Vec<(String, bool)>, Error> {
    const FLAG: &str = "runtime-config";
    let entry = |text: String| {
        let (api, value) = text.split_once('=').unwrap_or((&text, ""));
        let enabled = match value {
            "" => true,
            value => flags::boolean(FLAG, value)?,
        };
        Ok((api.trim().to_owned(), enabled))
    };
    flags.list(FLAG).into_iter().map(entry).collect()
}

fn duration(flags: &Flags, flag: &str) -> Result<Option<Duration>, Error> {
    let Some(text) = flags.text(flag) else { return Ok(None) };
    let nanos = evenkeel_types::duration::parse(text).map_err(|reason| Error::Invalid {
        flag: flag.to_owned(),
        value: text.to_owned(),
        reason,
    })?;
    // A negative interval disables compaction, as 0 does.
    Ok(Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))))
}

/// A number of requests; 0 is no limit, as upstream documents it.
fn limit(flags: &Flags, flag: &str) -> Result<Option<usize>, Error> {
    match flags.value::<i64>(flag)? {
        None => Ok(None),
        Some(0) => Ok(Some(usize::MAX)),
        Some(number) => usize::try_from(number).map(Some).map_err(|_| Error::Invalid {
            flag: flag.to_owned(),
            value: number.to_string(),
            reason: "can not be negative value".to_owned(),
        }),
    }
}

fn service_cidrs(flags: &Flags) -> Result<Vec<ServiceCidr>, Error> {
    const FLAG: &str = "service-cluster-ip-range";
    // One value with commas, not a repeatable list: the last value wins.
    let text = flags.text(FLAG).unwrap_or("10.0.0.0/24");
    text.split(',')
        .map(|range| {
            range.trim().parse().map_err(|error: InvalidCidr| Error::Invalid {
                flag: FLAG.to_owned(),
                value: text.to_owned(),
                reason: error.to_string(),
            })
        })
        .collect()
}

// === impl ServiceCidr ===

impl ServiceCidr {
    /// Returns the cluster IP of the `kubernetes` Service: the one after the network address.
    pub fn first_address(&self) -> IpAddr {
        // All host bits of the network are zero, and there is at least one.
        match self.network {
            IpAddr::V4(network) => IpAddr::V4((network.to_bits() | 1).into()),
            IpAddr::V6(network) => IpAddr::V6((network.to_bits() | 1).into()),
        }
    }
}

impl FromStr for ServiceCidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let invalid = || InvalidCidr(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let prefix: u8 = prefix.parse().map_err(|_| invalid())?;
        let network = match address {
            // A range of a single address has no room for a Service.
            IpAddr::V4(address) if prefix < 32 => {
                let host_bits = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
                IpAddr::V4((address.to_bits() & !host_bits).into())
            }
            IpAddr::V6(address) if prefix < 128 => {
                let host_bits = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
                IpAddr::V6((address.to_bits() & !host_bits).into())
            }
            _ => return Err(invalid()),
        };
        Ok(Self { network, prefix })
    }
}

impl fmt::Display for ServiceCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

#[cfg(test)]
mod tests;
