//! Content negotiation: the format of responses and of request bodies.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};

use crate::request::query::Query;
use crate::status::Status;

/// An encoding of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json { pretty: bool },
    Yaml,
    Protobuf,
}

impl Format {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json { .. } => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => PROTOBUF,
        }
    }
}

/// The representation of an object in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Object,
    Table,
    Metadata,
    /// Like `Metadata`, for lists only.
    MetadataList,
}

/// The negotiated representation of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) view: View,
    /// Whether the view is requested in version `v1beta1`, which differs in name only.
    pub(crate) beta: bool,
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const YAML: &str = "application/yaml";
const ACCEPTED: &[&str] = &[JSON, YAML, PROTOBUF];

/// Negotiates the response by `Accept`, best first. `protobuf` is whether the resource can be
/// encoded as protobuf; its metadata always can, and tables never.
pub(crate) fn output(headers: &HeaderMap, query: &Query, protobuf: bool) -> Result<Output, Status> {
    let pretty = pretty(headers, query);
    let mut any = false;
    for range in media_ranges(headers) {
        any = true;
        let (Some(format), Some(view)) = (range.format(pretty), range.view()) else { continue };
        let has_form = match view {
            View::Object => protobuf,
            View::Metadata | View::MetadataList => true,
            View::Table => false,
        };
        if format != Format::Protobuf || has_form {
            return Ok(Output { format, view, beta: range.parameter("v") == Some("v1beta1") });
        }
    }
    if any {
        return Err(Status::not_acceptable(ACCEPTED));
    }
    Ok(Output { format: Format::Json { pretty }, view: View::Object, beta: false })
}

/// Returns the format of an error response: the best one that is accepted without a view. If none
/// is accepted, the response is indented JSON all the same.
pub(crate) fn error_format(headers: &HeaderMap, pretty: bool) -> Option<Format> {
    let mut any = false;
    for range in media_ranges(headers) {
        any = true;
        if ["as", "g", "v"].iter().any(|name| range.parameter(name).is_some()) {
            continue;
        }
        match range.format(pretty) {
            Some(format) => return Some(format),
            None => continue,
        }
    }
    (!any).then_some(Format::Json { pretty })
}

/// Checks `Accept` as the router of built-in resources does: it compares whole media types and
/// accepts no range except `*/*`. `streams` is whether the route supports watches.
pub(crate) fn check_accept(headers: &HeaderMap, streams: bool) -> Result<(), Status> {
    let mut any = false;
    for range in media_ranges(headers) {
        any = true;
        if range.media == "*/*" || ACCEPTED.contains(&range.media) {
            return Ok(());
        }
    }
    if any { Err(Status::no_representation(ACCEPTED, streams)) } else { Ok(()) }
}

/// Returns whether JSON is indented.
pub(crate) fn pretty(headers: &HeaderMap, query: &Query) -> bool {
    // Values that Go's ParseBool does not accept count as false.
    if let Some(pretty) = query.get("pretty").filter(|pretty| !pretty.is_empty()) {
        return matches!(pretty, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("");
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|known| agent.starts_with(known))
}

pub(crate) struct MediaRange<'a> {
    pub(crate) media: &'a str,
    parameters: &'a str,
}

impl<'a> MediaRange<'a> {
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.split(';').find_map(|parameter| {
            let (key, value) = parameter.split_once('=')?;
            (key.trim() == name).then(|| value.trim().trim_matches('"'))
        })
    }

    fn format(&self, pretty: bool) -> Option<Format> {
        match self.media {
            "application/json" | "*/*" | "application/*" => Some(Format::Json { pretty }),
            "application/yaml" | "text/yaml" | "application/x-yaml" => Some(Format::Yaml),
            PROTOBUF => Some(Format::Protobuf),
            _ => None,
        }
    }

    fn view(&self) -> Option<View> {
        let Some(kind) = self.parameter("as") else { return Some(View::Object) };
        let version = self.parameter("v");
        if self.parameter("g") != Some("meta.k8s.io") || !matches!(version, Some("v1" | "v1beta1"))
        {
            return None;
        }
        match kind {
            "Table" => Some(View::Table),
            "PartialObjectMetadata" => Some(View::Metadata),
            "PartialObjectMetadataList" => Some(View::MetadataList),
            _ => None,
        }
    }
}

/// Returns the media ranges of `Accept`, by quality; ties keep their order.
pub(crate) fn media_ranges(headers: &HeaderMap) -> Vec<MediaRange<'_>> {
    let mut media_ranges: Vec<MediaRange<'_>> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| {
            let (media, parameters) = range.split_once(';').unwrap_or((range, ""));
            MediaRange { media: media.trim(), parameters }
        })
        .filter(|range| !range.media.is_empty())
        .collect();
    let quality = |range: &MediaRange<'_>| -> u32 {
        let q = range.parameter("q").and_then(|q| q.parse::<f64>().ok()).unwrap_or(1.0);
        (q.clamp(0.0, 1.0) * 1000.0) as u32
    };
    media_ranges.sort_by_key(|range| std::cmp::Reverse(quality(range)));
    media_ranges
}

/// Returns whether the client accepts gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| coding.split(';').next().is_some_and(|name| name.trim() == "gzip"))
}

/// Returns the format of the request body; JSON without a header.
pub(crate) fn input(headers: &HeaderMap, protobuf: bool) -> Result<Format, Status> {
    match media_type(headers).as_str() {
        "" | JSON | "*/*" => Ok(Format::Json { pretty: false }),
        YAML => Ok(Format::Yaml),
        PROTOBUF if protobuf => Ok(Format::Protobuf),
        _ => Err(Status::unsupported_media_type(ACCEPTED)),
    }
}

/// Returns the media type of the body without parameters; the whole header if they are malformed.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let (media, parameters) = value.split_once(';').unwrap_or((value, ""));
    let broken =
        |parameter: &str| parameter.split_once('=').is_none_or(|(key, _)| key.trim().is_empty());
    if !parameters.trim().is_empty() {
        let without_last = parameters.trim_end().strip_suffix(';').unwrap_or(parameters);
        if without_last.split(';').any(broken) {
            return value.to_owned();
        }
    }
    media.trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &str, expected: Option<(Format, View)>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        let output = output(&headers, &Query::default(), true).ok();
        assert_eq!(output.map(|o| (o.format, o.view)), expected, "{accept}");
    }

    const PLAIN: Format = Format::Json { pretty: false };

    #[test]
    fn error_format_ignores_media_ranges_with_a_view() {
        for (accept, expected) in [
            ("application/vnd.kubernetes.protobuf,application/json", Some(Format::Protobuf)),
            ("application/yaml", Some(Format::Yaml)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(PLAIN)),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                None,
            ),
            ("text/html", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(error_format(&headers, false), expected, "{accept}");
        }
        assert_eq!(error_format(&HeaderMap::new(), false), Some(PLAIN));
    }

    #[test]
    fn accept_headers_of_known_clients_are_negotiated() {
        check("application/json", Some((PLAIN, View::Object)));
        check("*/*", Some((PLAIN, View::Object)));
        check(
            "application/vnd.kubernetes.protobuf,application/json",
            Some((Format::Protobuf, View::Object)),
        );
        check("application/json,application/vnd.kubernetes.protobuf", Some((PLAIN, View::Object)));
        check(
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
            Some((PLAIN, View::Object)),
        );
        check("application/vnd.kubernetes.protobuf", Some((Format::Protobuf, View::Object)));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;\
             g=meta.k8s.io,application/json",
            Some((PLAIN, View::Table)),
        );
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            Some((Format::Protobuf, View::MetadataList)),
        );
        check("application/yaml", Some((Format::Yaml, View::Object)));
        check("text/html", None);
        check("application/json;as=Table;v=v9;g=meta.k8s.io", None);
    }
}
