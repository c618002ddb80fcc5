//! Which cluster: from the command line, the environment, the pod, or the user's kubeconfig.

use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig};

/// No cluster could be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A flag lacks its value.
    #[error("{0} needs a value")]
    NoValue(&'static str),
    /// A kubeconfig cannot be used.
    #[error("the kubeconfig {from}: {source}")]
    Kubeconfig {
        /// Where it was named.
        from: String,
        /// What is wrong with it.
        source: Box<kube::config::KubeconfigError>,
    },
    /// Nothing names a cluster.
    #[error(
        "no cluster: --kubeconfig and KUBECONFIG are not set, this is not a pod ({pod}), and \
         there is no usable ~/.kube/config ({home})"
    )]
    Nowhere {
        /// Why the pod's own access cannot be used.
        pod: String,
        /// Why the user's kubeconfig cannot be used.
        home: String,
    },
    /// The cluster's access cannot be set up.
    #[error("the cluster cannot be reached as configured: {0}")]
    Client(Box<kube::Error>),
}

/// What the command line says; other arguments are the program's own.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flags {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
}

impl Flags {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, ConfigError> {
        let mut flags = Self::default();
        let mut arguments = arguments.skip(1);
        while let Some(argument) = arguments.next() {
            let (name, given) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let flag = match name.strip_prefix("--").or_else(|| name.strip_prefix('-')) {
                Some("kubeconfig") => "--kubeconfig",
                Some("context") => "--context",
                // What follows `--` is not for us.
                Some("") if given.is_none() => break,
                _ => continue,
            };
            let value = given.or_else(|| arguments.next()).ok_or(ConfigError::NoValue(flag))?;
            match flag {
                "--kubeconfig" => flags.kubeconfig = Some(value.into()),
                _ => flags.context = Some(value),
            }
        }
        Ok(flags)
    }
}

pub(super) async fn from_args(
    arguments: impl Iterator<Item = String>,
) -> Result<kube::Client, ConfigError> {
    let Flags { kubeconfig, context } = Flags::parse(arguments)?;
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let failed = |from: &str| {
        let from = from.to_owned();
        move |source| ConfigError::Kubeconfig { from, source: Box::new(source) }
    };
    let mut config = if let Some(path) = kubeconfig {
        let failed = failed(&path.display().to_string());
        let kubeconfig = match Kubeconfig::read_from(&path) {
            Ok(kubeconfig) => kubeconfig,
            Err(source) => return Err(failed(source)),
        };
        kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(failed)?
    } else if std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty()) {
        let failed = failed("in KUBECONFIG");
        kube::Config::from_kubeconfig(&options).await.map_err(failed)?
    } else {
        match kube::Config::incluster() {
            Ok(config) => config,
            Err(pod) => match kube::Config::from_kubeconfig(&options).await {
                Ok(config) => config,
                Err(home) => {
                    let (pod, home) = (pod.to_string(), home.to_string());
                    return Err(ConfigError::Nowhere { pod, home });
                }
            },
        }
    };
    config.default_retry = false;
    kube::Client::try_from(config).map_err(|error| ConfigError::Client(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Flags, ConfigError> {
        Flags::parse(["operator"].iter().chain(arguments).map(|text| (*text).to_owned()))
    }

    #[test]
    fn flags_are_found_among_the_programs_own() {
        let flags = parse(&["--verbose", "--kubeconfig=/k", "--context", "dev", "x"]).unwrap();
        assert_eq!(flags.kubeconfig, Some("/k".into()));
        assert_eq!(flags.context.as_deref(), Some("dev"));
        assert_eq!(parse(&["--", "--context", "dev"]).unwrap(), Flags::default());
    }

    #[test]
    fn a_flag_without_its_value_is_named() {
        let error = parse(&["--kubeconfig"]).unwrap_err();
        assert_eq!(error.to_string(), "--kubeconfig needs a value");
    }
}
