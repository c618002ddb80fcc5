//! The levels that a namespace selects with its labels.

use std::fmt;

use evenkeel_schema::field;
use serde_json::{Map, Value};

/// A level of the Pod Security Standards, from the least to the most restrictive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing is checked.
    Privileged,
    /// Known privilege escalations are not allowed.
    Baseline,
    /// Pods have to be hardened.
    Restricted,
}

/// The version of a level's checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// That of the server.
    Latest,
    /// `v1.x`
    Minor(u32),
}

/// A level in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    /// The level.
    pub level: Level,
    /// The version.
    pub version: Version,
}

/// What a namespace enforces and warns about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Pods that violate it are rejected.
    pub enforce: LevelVersion,
    /// Violations are recorded in the audit log.
    pub audit: LevelVersion,
    /// Violations cause a warning.
    pub warn: LevelVersion,
}

impl Version {
    /// Returns the minor version; `None` for the latest.
    pub const fn minor(self) -> Option<u32> {
        match self {
            Self::Latest => None,
            Self::Minor(minor) => Some(minor),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let canonical = digits == "0" || !digits.starts_with('0');
        let plain = canonical && digits.bytes().all(|byte| byte.is_ascii_digit());
        // A version of 64 bits is valid upstream; every check is older than that.
        let minor: u64 =
            digits.parse().ok().filter(|minor| plain && i64::try_from(*minor).is_ok())?;
        Some(Self::Minor(u32::try_from(minor).unwrap_or(u32::MAX)))
    }
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::Privileged => "privileged:",
            Level::Baseline => "baseline:",
            Level::Restricted => "restricted:",
        })?;
        match self.version {
            Version::Latest => f.write_str("latest"),
            Version::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

impl Policy {
    /// Reads the labels of a namespace. A label that is not valid counts as the most restrictive
    /// value for `enforce`, and as none for the others.
    pub fn of(labels: Option<&Map<String, Value>>) -> (Self, Vec<field::Error>) {
        let mut errors = Vec::new();
        let mut read = |mode: &str| {
            let mut label = |suffix: &str, valid: &dyn Fn(&str) -> bool, why: &str| {
                let name = format!("pod-security.kubernetes.io/{mode}{suffix}");
                let text = labels.and_then(|labels| labels.get(&name)?.as_str())?;
                if !valid(text) {
                    let path = format!("metadata.labels[{name}]");
                    errors.push(field::Error::invalid(&path, text, why));
                }
                Some(text)
            };
            let level = label(
                "",
                &|text| Level::parse(text).is_some(),
                "must be one of privileged, baseline, restricted",
            );
            let version = label(
                "-version",
                &|text| Version::parse(text).is_some(),
                "must be \"latest\" or \"v1.x\"",
            );
            (level.map(Level::parse), version.map(Version::parse))
        };
        let (enforced, audited, warned) = (read("enforce"), read("audit"), read("warn"));
        let of = |(level, version): (Option<Option<Level>>, Option<Option<Version>>), invalid| {
            LevelVersion {
                level: level.map_or(Level::Privileged, |level| level.unwrap_or(invalid)),
                version: version.flatten().unwrap_or(Version::Latest),
            }
        };
        let mut policy = Self {
            enforce: of(enforced, Level::Restricted),
            audit: of(audited, Level::Privileged),
            warn: of(warned, Level::Privileged),
        };
        // What is enforced on pods is at least a warning about their templates.
        let is_valid = matches!(enforced.0, Some(Some(_)));
        if warned.0.is_none() && is_valid && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if warned.1.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    /// Returns whether nothing is checked.
    pub fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }
}
