//! From the flags of kube-apiserver to what this server does with them.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use crate::flags::{Error, Flag, Flags};

/// Everything the command line decides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Where and how to listen.
    pub serving: Serving,
    /// What the server behind the listener does.
    pub settings: Settings,
}

/// Where and how to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Serving {
    /// The address; unlike upstream the loopback unless given.
    pub bind_address: IpAddr,
    /// The port; 0 takes any free one.
    pub secure_port: u16,
    /// Whether `bind_address` may be reachable from other machines.
    pub allow_non_loopback: bool,
    /// Where `apiserver.crt` and `apiserver.key` are, or are to be left.
    pub cert_dir: Option<PathBuf>,
    /// A certificate and key that take precedence over `cert_dir`.
    pub tls_pair: Option<(PathBuf, PathBuf)>,
    /// The authorities that vouch for clients.
    pub client_ca_file: Option<PathBuf>,
    /// The bearer tokens of static users.
    pub token_auth_file: Option<PathBuf>,
}

/// What the server behind the listener does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Whether requests without credentials are let in as `system:anonymous`.
    pub anonymous_auth: bool,
    /// `RBAC`, `AlwaysAllow` and so on, in order.
    pub authorization_modes: Vec<String>,
    /// Admission plugins to switch on besides the default ones.
    pub enable_admission_plugins: Vec<String>,
    /// Admission plugins to switch off.
    pub disable_admission_plugins: Vec<String>,
    /// The ranges that Service addresses come from.
    pub service_cidrs: Vec<ServiceCidr>,
    /// The issuers of service account tokens; the first one signs.
    pub service_account_issuers: Vec<String>,
    /// How often superseded versions are compacted; the server's default if none.
    pub compaction_interval: Option<Duration>,
    /// The keys that verify service account tokens.
    pub service_account_key_files: Vec<PathBuf>,
    /// The key that signs service account tokens.
    pub service_account_signing_key_file: Option<PathBuf>,
}

/// A range of Service addresses in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCidr {
    network: IpAddr,
    prefix: u8,
}

/// Text that is no range in CIDR notation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid CIDR address: {0}")]
pub struct InvalidCidr(String);

const ALWAYS_ALLOW: &str = "AlwaysAllow";

/// No name here may begin with `insecure-port`: envtest takes that for a server older than 1.24.
pub(super) const FLAGS: &[Flag] = &[
    Flag::switch("help", "Shows this help."),
    Flag::switch("version", "Shows the version."),
    Flag::value("bind-address", "ip", "The address to serve on. Default: 127.0.0.1."),
    Flag::value("secure-port", "int", "The port to serve on; 0 takes any free one. Default: 6443."),
    Flag::switch(
        "evenkeel-allow-non-loopback",
        "Allows a --bind-address that other machines can reach.",
    ),
    Flag::value(
        "cert-dir",
        "dir",
        "Holds apiserver.crt and apiserver.key; they are generated if absent.",
    ),
    Flag::value(
        "tls-cert-file",
        "file",
        "The serving certificate, instead of the one in --cert-dir.",
    ),
    Flag::value("tls-private-key-file", "file", "The key of --tls-cert-file."),
    Flag::value(
        "client-ca-file",
        "file",
        "The authorities whose client certificates are accepted.",
    ),
    Flag::value(
        "token-auth-file",
        "file",
        "Static bearer tokens: token,user,uid,\"group1,group2\".",
    ),
    Flag::switch(
        "anonymous-auth",
        "Lets requests without credentials in as system:anonymous. Default: true; false where \
         --authorization-mode holds AlwaysAllow.",
    ),
    Flag::value(
        "authorization-mode",
        "strings",
        "The authorizers, in order. Default: AlwaysAllow.",
    ),
    Flag::value("enable-admission-plugins", "strings", "Admission plugins to switch on."),
    Flag::value("disable-admission-plugins", "strings", "Admission plugins to switch off."),
    Flag::value(
        "service-cluster-ip-range",
        "cidrs",
        "The ranges of Service addresses. Default: 10.0.0.0/24.",
    ),
    Flag::value("service-account-issuer", "strings", "The issuers of service account tokens."),
    Flag::value(
        "service-account-key-file",
        "files",
        "The keys that verify service account tokens.",
    ),
    Flag::value(
        "service-account-signing-key-file",
        "file",
        "The key that signs service account tokens.",
    ),
    Flag::value(
        "etcd-compaction-interval",
        "duration",
        "How often superseded versions are compacted; never if 0. Default: 5m0s.",
    ),
    Flag::value("etcd-servers", "urls", "Accepted; storage is built in."),
    Flag::switch("allow-privileged", "Accepted; privileged containers are always allowed."),
    Flag::value("v", "level", "Accepted."),
];

impl Config {
    pub(super) fn from_flags(flags: &Flags) -> Result<Self, Error> {
        let path = |name| flags.text(name).map(PathBuf::from);
        let tls_pair = match (path("tls-cert-file"), path("tls-private-key-file")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(Error::MissingValue("tls-private-key-file".to_owned())),
            (None, Some(_)) => return Err(Error::MissingValue("tls-cert-file".to_owned())),
        };
        let serving = Serving {
            bind_address: flags.value("bind-address")?.unwrap_or(Ipv4Addr::LOCALHOST.into()),
            secure_port: flags.value("secure-port")?.unwrap_or(6443),
            allow_non_loopback: flags.switch("evenkeel-allow-non-loopback", false)?,
            cert_dir: path("cert-dir"),
            tls_pair,
            client_ca_file: path("client-ca-file"),
            token_auth_file: path("token-auth-file"),
        };
        let authorization_modes = match flags.list("authorization-mode") {
            none if none.is_empty() => vec![ALWAYS_ALLOW.to_owned()],
            given => given,
        };
        // As upstream: where everything is allowed, requests without credentials are not.
        let always_allow = authorization_modes.iter().any(|mode| mode == ALWAYS_ALLOW);
        let settings = Settings {
            anonymous_auth: flags.switch("anonymous-auth", true)? && !always_allow,
            authorization_modes,
            enable_admission_plugins: flags.list("enable-admission-plugins"),
            disable_admission_plugins: flags.list("disable-admission-plugins"),
            service_cidrs: service_cidrs(flags)?,
            compaction_interval: duration(flags, "etcd-compaction-interval")?,
            // Repeatable, but not split: an issuer may hold a comma.
            service_account_issuers: flags
                .all("service-account-issuer")
                .map(str::to_owned)
                .collect(),
            service_account_key_files: flags
                .all("service-account-key-file")
                .map(PathBuf::from)
                .collect(),
            service_account_signing_key_file: path("service-account-signing-key-file"),
        };
        Ok(Self { serving, settings })
    }
}

fn duration(flags: &Flags, flag: &str) -> Result<Option<Duration>, Error> {
    let Some(text) = flags.text(flag) else { return Ok(None) };
    let nanos = evenkeel_types::duration::parse(text).map_err(|reason| Error::Invalid {
        flag: flag.to_owned(),
        value: text.to_owned(),
        reason,
    })?;
    // A negative interval compacts nothing, as zero does.
    Ok(Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))))
}

fn service_cidrs(flags: &Flags) -> Result<Vec<ServiceCidr>, Error> {
    const FLAG: &str = "service-cluster-ip-range";
    // One value with commas, not a repeatable list: the last one counts.
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
    /// The address of the `kubernetes` Service: the one after the network's own.
    pub fn first_address(&self) -> IpAddr {
        // The network's host bits are zero and there is at least one of them.
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
            // A range without room for a single Service is of no use.
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
