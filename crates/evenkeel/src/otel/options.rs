//! Where traces are sent, from code or from OpenTelemetry's standard variables.

use http::Uri;

use crate::redacted::Redacted;

/// The path of traces below an endpoint.
const TRACES: &str = "v1/traces";

/// Where traces are sent.
///
/// ```
/// use evenkeel::otel::OtelOptions;
///
/// let options = OtelOptions::new("https://collector:4318", "shop")?
///     .header("authorization", "Bearer abc")
///     .attribute("deployment.environment", "test");
/// assert!(!format!("{options:?}").contains("abc"));
/// # Ok::<_, evenkeel::otel::OtelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OtelOptions {
    /// With the path of traces.
    pub(super) endpoint: Uri,
    pub(super) headers: Vec<(String, Redacted<String>)>,
    /// The attributes of the resource.
    pub(super) attributes: Vec<(String, String)>,
}

/// Why the options are invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtelError {
    /// The endpoint is not a URL.
    #[error("the endpoint of traces {0:?} is not an http or https URL")]
    Endpoint(String),
}

impl OtelOptions {
    /// Creates options for a collector; `endpoint` is its URL without `/v1/traces`, and `service` the
    /// name of the operator.
    ///
    /// # Errors
    /// When the endpoint is not an HTTP or HTTPS URL.
    pub fn new(endpoint: &str, service: &str) -> Result<Self, OtelError> {
        Self::at(&format!("{}/{TRACES}", endpoint.trim_end_matches('/')), service)
    }

    fn at(endpoint: &str, service: &str) -> Result<Self, OtelError> {
        let invalid = || OtelError::Endpoint(endpoint.to_owned());
        let uri: Uri = endpoint.parse().map_err(|_| invalid())?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.authority().is_none() {
            return Err(invalid());
        }
        let attributes = vec![("service.name".to_owned(), service.to_owned())];
        Ok(Self { endpoint: uri, headers: Vec::new(), attributes })
    }

    /// Adds a header to each request, such as a token.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), Redacted::new(value.to_owned())));
        self
    }

    /// Sets an attribute of the resource; those of the same name are replaced.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.retain(|(known, _)| known != name);
        self.attributes.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the options of the standard variables, which `variable` looks up; `None` if no
    /// endpoint is set or `OTEL_SDK_DISABLED` is true.
    ///
    /// # Errors
    /// When the endpoint is not an HTTP or HTTPS URL.
    pub fn from_variables(
        service: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, OtelError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let traces = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let mut options = match (traces, variable("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(traces), _) => Self::at(&traces, service)?,
            (None, Some(endpoint)) => Self::new(&endpoint, service)?,
            (None, None) => return Ok(None),
        };
        for (name, value) in pairs(&variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default()) {
            options = options.attribute(name, value);
        }
        if let Some(service) = variable("OTEL_SERVICE_NAME") {
            options = options.attribute("service.name", &service);
        }
        let headers = variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"));
        for (name, value) in pairs(&headers.unwrap_or_default()) {
            options = options.header(name, value);
        }
        Ok(Some(options))
    }
}

/// Parses `a=1,b=2`.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim(), value.trim())).filter(|(name, _)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variables: &[(&str, &str)]) -> Result<Option<OtelOptions>, OtelError> {
        OtelOptions::from_variables("shop", |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn variables_of_opentelemetry_are_read() {
        assert!(options(&[]).unwrap().is_none());
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/");
        assert!(options(&[endpoint, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
        let found = options(&[
            endpoint,
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer x, team=a"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,zone=b"),
        ]);
        let found = found.unwrap().unwrap();
        assert_eq!(found.endpoint, "http://c:4318/v1/traces");
        assert_eq!(found.headers.len(), 2);
        let attributes = [("service.name", "other"), ("zone", "b")];
        assert_eq!(found.attributes, attributes.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/x");
        assert_eq!(options(&[endpoint, traces]).unwrap().unwrap().endpoint, "https://t/x");
        for bad in ["collector:4318", "ftp://c", "/v1/traces"] {
            assert!(options(&[("OTEL_EXPORTER_OTLP_ENDPOINT", bad)]).is_err(), "{bad}");
        }
    }
}
