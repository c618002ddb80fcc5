//! The query string, and the options of each verb in it.

use std::borrow::Cow;
use std::time::Duration;

use evenkeel_schema::field;
use evenkeel_types::duration;

use crate::request::route::Route;
use crate::status::{GroupResource, Status};

/// The decoded parameters in order; the first one of a name is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query string. Like Go, it skips parameters with invalid escapes or semicolons.
    pub(crate) fn parse(text: &str) -> Self {
        let readable = |pair: &&str| !pair.is_empty() && !pair.contains(';');
        let pairs = text.split('&').filter(readable).filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        });
        Self(pairs.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or("")
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether a flag is set. Any value but `false` and `0` counts as true, also an empty one,
    /// as in upstream's `Convert_Slice_string_To_bool`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    fn optional_flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
    }

    /// Returns the `timeout` of a request that is not long-running, if it is positive.
    pub(crate) fn timeout(&self, route: &Route) -> Result<Option<Duration>, Status> {
        let text = self.text("timeout");
        if text.is_empty() || route.is_long_running() {
            return Ok(None);
        }
        let nanos = duration::parse(text).map_err(|why| {
            Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
        })?;
        Ok(u64::try_from(nanos).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos))
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
                use std::num::IntErrorKind::{NegOverflow, PosOverflow};
                let why = match error.kind() {
                    PosOverflow | NegOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
            }),
        }
    }
}

/// Decodes `%41` and `+`; returns `None` if an escape is invalid.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let value = hex_pair(tail)?;
                rest = &tail[2..];
                value
            }
            _ => byte,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Decodes escapes in a path, where `+` is literal; a path with an invalid escape is returned
/// unchanged.
pub(crate) fn decode_path(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }
    decode(&text.replace('+', "%2B")).map_or(text.into(), Cow::from)
}

fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    Some((digit(0)? * 16 + digit(1)?) as u8)
}

/// How a write treats unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: Option<bool>,
}

impl WriteOptions {
    /// Parses the options. `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`; `apply` is
    /// whether a patch is an apply.
    pub(crate) fn parse(query: &Query, kind: &str, apply: bool) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let force = query.optional_flag("force");
        let manager = query.text("fieldManager");
        if kind == "PatchOptions" {
            if apply && manager.is_empty() {
                errors.push(field::Error::required("fieldManager", "is required for apply patch"));
            }
            if !apply && force.is_some() {
                errors.push(field::Error::forbidden(
                    "force",
                    "may not be specified for non-apply patch",
                ));
            }
        }
        validate_field_manager(manager, &mut errors);
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.push(field::Error::not_supported(
                    "fieldValidation",
                    other,
                    ["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        check_options(kind, &errors)?;
        let field_manager = (!manager.is_empty()).then(|| manager.to_owned());
        Ok(Self { dry_run, field_manager, field_validation, force })
    }
}

impl WriteOptions {
    /// Returns the options of the server's own writes.
    pub(crate) fn internal() -> Self {
        Self {
            dry_run: false,
            field_manager: None,
            field_validation: FieldValidation::Ignore,
            force: None,
        }
    }
}

/// Returns whether the values of `dryRun` request a dry run; any value but `All` is an error.
pub(crate) fn dry_run<'a>(
    values: impl Iterator<Item = &'a str>,
    errors: &mut Vec<field::Error>,
) -> bool {
    let values: Vec<&str> = values.filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        let value: serde_json::Value = values.clone().into();
        errors.push(field::Error::not_supported("dryRun", value, ["All"]));
    }
    !values.is_empty()
}

fn validate_field_manager(manager: &str, errors: &mut Vec<field::Error>) {
    const LIMIT: usize = 128;
    if manager.len() > LIMIT {
        errors.push(field::Error::too_long("fieldManager", LIMIT));
    }
    for (at, c) in manager.char_indices() {
        if c.is_control() || c == '\u{FFFD}' {
            errors.push(field::Error::invalid(
                "fieldManager",
                manager,
                format!("invalid character U+{:04X} (at position {at})", u32::from(c)),
            ));
        }
    }
}

/// Fails with 422 if the options have errors.
pub(crate) fn check_options(kind: &str, errors: &[field::Error]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(GroupResource { group: "meta.k8s.io", resource: kind }, "", errors))
}

/// Options of list, watch and deletecollection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) watch: bool,
    pub(crate) allow_watch_bookmarks: bool,
    pub(crate) resource_version: String,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) timeout_seconds: Option<i64>,
    pub(crate) limit: i64,
    pub(crate) continue_token: String,
    pub(crate) send_initial_events: Option<bool>,
}

/// The `resourceVersionMatch` of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

impl ListOptions {
    pub(crate) fn parse(query: &Query) -> Result<Self, Status> {
        let version_match = match query.text("resourceVersionMatch") {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            // Empty, or a value that validation rejects.
            _ => None,
        };
        let mut options = Self {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            watch: query.flag("watch"),
            allow_watch_bookmarks: query.flag("allowWatchBookmarks"),
            resource_version: query.text("resourceVersion").to_owned(),
            version_match,
            timeout_seconds: query.integer("timeoutSeconds")?,
            limit: query.integer("limit")?.unwrap_or(0),
            continue_token: query.text("continue").to_owned(),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        };
        let mut errors = Vec::new();
        let given = query.text("resourceVersionMatch");
        if options.watch {
            let unset = options.send_initial_events.is_none() && given.is_empty();
            if unset && matches!(options.resource_version.as_str(), "" | "0") {
                // For compatibility, a watch without a resourceVersion starts with the current
                // state.
                options.send_initial_events = Some(true);
                options.version_match = Some(VersionMatch::NotOlderThan);
                options.validate_watch("NotOlderThan", &mut errors);
            } else {
                options.validate_watch(given, &mut errors);
            }
        } else {
            options.validate_list(given, &mut errors);
        }
        check_options("ListOptions", &errors)?;
        Ok(options)
    }

    /// Validates the options of a list, like upstream's `ValidateListOptions`.
    fn validate_list(&self, given: &str, errors: &mut Vec<field::Error>) {
        let mut forbid = |why: &str| errors.push(field::Error::forbidden(MATCH, why));
        if !given.is_empty() {
            if self.resource_version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if self.version_match == Some(VersionMatch::Exact) && self.resource_version == "0" {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            if self.version_match.is_none() {
                let supported = ["Exact", "NotOlderThan", ""];
                errors.push(field::Error::not_supported(MATCH, given, supported));
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(field::Error::forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
    }

    /// Validates the options of a watch, like upstream's `ValidateListOptions`.
    fn validate_watch(&self, given: &str, errors: &mut Vec<field::Error>) {
        let initial = self.send_initial_events.is_some();
        if initial && given != "NotOlderThan" {
            errors.push(field::Error::forbidden(
                MATCH,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if given.is_empty() {
            return;
        }
        if !initial {
            errors.push(field::Error::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if given != "NotOlderThan" {
            errors.push(field::Error::not_supported(MATCH, given, ["NotOlderThan"]));
        }
        if !self.continue_token.is_empty() {
            errors.push(field::Error::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
    }
}

const MATCH: &str = "resourceVersionMatch";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_percent_decoded_and_flags_read_as_upstream() {
        let query = Query::parse("labelSelector=a%20in+%28b%29&watch=&pretty=0&x");
        assert_eq!(query.get("labelSelector"), Some("a in (b)"));
        assert!(query.flag("watch") && !query.flag("pretty") && query.flag("x"));
        assert!(!query.flag("absent"));
        let query = Query::parse("limit=%zz&watch=1;limit=2&x=%4&%=1&limit=3");
        assert_eq!(query.0, [("limit".to_owned(), "3".to_owned())]);
    }

    #[test]
    fn bad_options_name_their_kind() {
        let status =
            WriteOptions::parse(&Query::parse("dryRun=x"), "CreateOptions", false).unwrap_err();
        assert_eq!(status.code(), 422);
        assert!(status.message().starts_with("CreateOptions.meta.k8s.io \"\" is invalid: dryRun"));
    }
}
