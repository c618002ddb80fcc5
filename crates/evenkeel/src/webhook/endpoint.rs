//! Where API servers reach the webhook server.

use serde_json::Value;

/// A Service, or a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Service {
        namespace: String,
        name: String,
        port: u16,
    },
    /// Without a trailing slash.
    Url(String),
}

impl Endpoint {
    /// Returns whether a `clientConfig` refers to this endpoint.
    pub(super) fn is_in(&self, config: &Value) -> bool {
        match self {
            Self::Service { namespace, name, .. } => {
                let service = &config["service"];
                service["namespace"] == **namespace && service["name"] == **name
            }
            Self::Url(url) => {
                let rest = config["url"].as_str().and_then(|given| given.strip_prefix(&**url));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
    }

    /// Returns the names that API servers expect in the serving certificate.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Service { namespace, name, .. } => vec![
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.cluster.local"),
                format!("{name}.{namespace}"),
            ],
            Self::Url(url) => {
                let uri = url.parse::<http::Uri>().ok();
                let host = uri.as_ref().and_then(http::Uri::host);
                let host = host.map(|host| host.trim_matches(['[', ']']).to_owned());
                host.into_iter().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_own_client_configs_match() {
        let service =
            Endpoint::Service { namespace: "op".to_owned(), name: "hooks".to_owned(), port: 443 };
        assert!(service.is_in(&json!({"service": {"namespace": "op", "name": "hooks"}})));
        assert!(!service.is_in(&json!({"service": {"namespace": "other", "name": "hooks"}})));
        assert!(!service.is_in(&json!({"url": "https://op/"})));
        let url = Endpoint::Url("https://[::1]:9443".to_owned());
        assert!(url.is_in(&json!({"url": "https://[::1]:9443/convert"})));
        assert!(!url.is_in(&json!({"url": "https://[::1]:94430/convert"})));
        assert_eq!(url.names(), ["::1"]);
        assert!(service.names().contains(&"hooks.op.svc".to_owned()));
    }
}
