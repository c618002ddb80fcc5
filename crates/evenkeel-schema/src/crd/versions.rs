//! Validates the spec of a CRD: group, scope, names and versions.

use evenkeel_types::go;

use super::options::Options;
use super::schema::Schema;
use super::shape;
use super::spec::{Names, Parts, Spec, Version};
use super::{columns, conversion, defaults, openapi, render, rules};
use crate::field::Error;
use crate::names;
use crate::structural::{Purpose, compile_map};

pub(super) fn check(spec: &Spec<'_>, options: &Options<'_>, errors: &mut Vec<Error>) {
    check_group_and_scope(spec, errors);
    check_schemas_present(spec, options, errors);
    let has_defaults = spec.schemas().any(|s| s.has(&|s| s.get("default").is_some()));
    if has_defaults && spec.preserve_unknown {
        errors.push(Error::invalid(
            "spec.preserveUnknownFields",
            true,
            "must be false in order to use defaults in the schema",
        ));
    }
    // Pruning, defaults and extensions require structural schemas.
    let structural = options.require_structural
        || !spec.preserve_unknown
        || has_defaults
        || spec.schemas().any(|s| s.has(&openapi::has_extensions));

    for (i, version) in spec.versions.iter().enumerate() {
        let path = format!("spec.versions[{i}]");
        let wrong = names::dns1035_label(version.name);
        if !wrong.is_empty() {
            errors.push(Error::invalid(format!("{path}.name"), version.name, wrong.join(",")));
        }
        check_deprecation(version, &path, errors);
        let parts = &version.parts;
        if let Some(schema) = parts.schema() {
            let path = format!("{path}.schema");
            let unchanged = options.unchanged_schemas.contains(version.name);
            let schema = Checked { schema, structural, unchanged, status: version.has_status };
            check_schema(&schema, options, &path, errors);
        }
        columns::check_subresources(parts.subresources, &format!("{path}.subresources"), errors);
        let at = format!("{path}.additionalPrinterColumns");
        columns::check_columns(parts.columns(), &at, errors);
        check_selectable(parts, version.name, options, &path, errors);
    }
    check_version_list(spec, errors);
    check_required_names(&spec.names, errors);
    check_names(&spec.names, "spec.names", errors);

    let shared = &spec.shared;
    if let Some(schema) = shared.schema() {
        let status = spec.versions.iter().any(|version| version.has_status);
        // Upstream takes the shared schema for that of the first version.
        let first = spec.versions.first().map_or("", |version| version.name);
        let unchanged = options.unchanged_schemas.contains(first);
        let schema = Checked { schema, structural, unchanged, status };
        check_schema(&schema, options, "spec.validation", errors);
    }
    columns::check_subresources(shared.subresources, "spec.subresources", errors);
    columns::check_columns(shared.columns(), "spec.additionalPrinterColumns", errors);
    check_selectable(shared, "", options, "spec", errors);
    conversion::check(spec, options, errors);
}

fn check_group_and_scope(spec: &Spec<'_>, errors: &mut Vec<Error>) {
    let wrong = names::dns1123_subdomain(spec.group);
    if spec.group.is_empty() {
        errors.push(Error::required("spec.group", ""));
    } else if !wrong.is_empty() {
        errors.push(Error::invalid("spec.group", spec.group, wrong.join(",")));
    } else if !spec.group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(Error::invalid("spec.group", spec.group, detail));
    }
    match spec.scope {
        "" => errors.push(Error::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            errors.push(Error::not_supported("spec.scope", other, ["Cluster", "Namespaced"]));
        }
    }
}

fn check_schemas_present(spec: &Spec<'_>, options: &Options<'_>, errors: &mut Vec<Error>) {
    for (i, version) in spec.versions.iter().enumerate() {
        let path = || format!("spec.versions[{i}].schema.openAPIV3Schema");
        if version.schema.is_some() {
            continue;
        }
        if options.require_schema {
            errors.push(Error::required(path(), ""));
        } else if !spec.preserve_unknown && version.served {
            errors.push(Error::required(path(), "because otherwise all fields are pruned"));
        }
    }
}

fn check_deprecation(version: &Version<'_>, path: &str, errors: &mut Vec<Error>) {
    let Some(warning) = version.deprecation_warning else { return };
    let path = format!("{path}.deprecationWarning");
    let mut wrong = Vec::new();
    if !version.deprecated {
        wrong.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > 256 {
            wrong.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            wrong.push("must not be an empty string".to_owned());
        }
        if let Some((i, _)) = warning.char_indices().find(|(_, c)| !go::is_print(*c)) {
            wrong.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at \
                 index {i}"
            ));
        }
    }
    // A string pointer is printed as JSON, not quoted.
    let shown = render::string(warning);
    errors.extend(wrong.iter().map(|wrong| Error::invalid_text(&*path, &shown, wrong)));
}

fn check_version_list(spec: &Spec<'_>, errors: &mut Vec<Error>) {
    let mut seen: Vec<&str> = spec.versions.iter().map(|version| version.name).collect();
    seen.sort_unstable();
    let unique = seen.windows(2).all(|pair| pair[0] != pair[1]);
    let storage_versions = spec.versions.iter().filter(|version| version.storage).count();
    let mut report = |detail: &str| {
        errors.push(Error::invalid_text("spec.versions", &render::versions(spec), detail))
    };
    if !unique {
        report("must contain unique version names");
    }
    if storage_versions != 1 {
        report("must have exactly one version marked as storage version");
    }
    if let Some(first) = spec.versions.first() {
        // Upstream copies the name of the first version to the deprecated `spec.version`.
        let wrong = names::dns1035_label(first.name);
        if !first.name.is_empty() && !wrong.is_empty() {
            errors.push(Error::invalid("spec.version", first.name, wrong.join(",")));
        }
    }
}

fn check_required_names(names: &Names<'_>, errors: &mut Vec<Error>) {
    for (key, value) in [
        ("plural", names.plural),
        ("singular", names.singular),
        ("kind", names.kind),
        ("listKind", names.list_kind),
    ] {
        if value.is_empty() {
            errors.push(Error::required(format!("spec.names.{key}"), ""));
        }
    }
}

pub(super) fn check_names(given: &Names<'_>, path: &str, errors: &mut Vec<Error>) {
    let mut label = |at: String, value: &str, mixed_case: bool| {
        let lower = value.to_lowercase();
        let wrong = names::dns1035_label(if mixed_case { &lower } else { value });
        if !wrong.is_empty() {
            let mixed =
                if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
            let detail = format!("{mixed}{}", wrong.join(","));
            errors.push(Error::invalid(format!("{path}.{at}"), value, detail));
        }
    };
    for (key, value, mixed_case) in [
        ("plural", given.plural, false),
        ("singular", given.singular, false),
        ("kind", given.kind, true),
        ("listKind", given.list_kind, true),
    ] {
        if !value.is_empty() {
            label(key.to_owned(), value, mixed_case);
        }
    }
    for (i, name) in given.short_names().enumerate() {
        label(format!("shortNames[{i}]"), name, false);
    }
    if !given.kind.is_empty() && given.kind == given.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(format!("{path}.listKind"), given.list_kind, detail));
    }
    for (i, name) in given.categories().enumerate() {
        let wrong = names::dns1035_label(name);
        if !wrong.is_empty() {
            let path = format!("{path}.categories[{i}]");
            errors.push(Error::invalid(path, name, wrong.join(",")));
        }
    }
}

/// A schema, and which checks it needs.
struct Checked<'a> {
    schema: Schema<'a>,
    /// The version has a `status` subresource.
    status: bool,
    /// The schema must be structural.
    structural: bool,
    /// The stored CRD has the same schema.
    unchanged: bool,
}

/// Runs all checks on one schema. `path` is the path of the object that contains it.
fn check_schema(checked: &Checked<'_>, options: &Options<'_>, path: &str, errors: &mut Vec<Error>) {
    let Checked { schema, status, structural, unchanged } = *checked;
    let start = errors.len();
    if status {
        openapi::check_root_for_status(schema, path, errors);
    }
    let path = format!("{path}.openAPIV3Schema");
    if schema.flag("nullable") {
        let detail = "nullable cannot be true at the root";
        errors.push(Error::forbidden(format!("{path}.nullable"), detail));
    }
    let mut unsupported = None;
    let mut node = None;
    if structural {
        if let Some(reason) = shape::unsupported(schema) {
            unsupported = Some(Error::invalid(&*path, "", reason));
        } else {
            let mut wrong = shape::check(schema, &path);
            if wrong.is_empty() {
                wrong = defaults::check(schema, &path, options.require_pruned_defaults);
            }
            if wrong.is_empty() && schema.has(&openapi::has_rules) {
                node =
                    schema.as_map().and_then(|schema| compile_map(schema, Purpose::Resource).ok());
            }
            errors.extend(wrong);
        }
    }
    let report = rules::Report::new(unchanged);
    let place = node.as_ref().map(|node| rules::Place::root(node, &report));
    openapi::check(schema, &path, options, place, errors);
    report.finish(&path, errors);
    // The keyword checks above usually report an unsupported keyword with a better message.
    if errors.len() == start {
        errors.extend(unsupported);
    }
}

fn check_selectable(
    parts: &Parts<'_>,
    version: &str,
    options: &Options<'_>,
    path: &str,
    errors: &mut Vec<Error>,
) {
    let fields = parts.selectable();
    if fields.is_empty() {
        return;
    }
    let at = format!("{path}.selectableFields");
    let Some(schema) = parts.schema() else {
        let detail = if version.is_empty() {
            "may only be set when validations.schema is included"
        } else {
            "may only be set when `version.schema.openAPIV3Schema` is not included"
        };
        errors.push(Error::invalid(at, "", detail));
        return;
    };
    if let Some(reason) = shape::unsupported(schema) {
        errors.push(Error::invalid(format!("{path}.schema.openAPIV3Schema"), "", reason));
        return;
    }
    let unlimited = options.allow_many_selectable.contains(version);
    columns::check_selectable(fields, schema, unlimited, &at, errors);
}
