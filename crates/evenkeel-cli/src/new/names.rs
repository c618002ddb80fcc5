//! The names of a new operator and of its kind, validated as Cargo and Kubernetes would.

use anyhow::bail;

/// The names in their different spellings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The operator: the name of the package, of the Deployment and so on.
    pub(crate) operator: String,
    /// The library as a Rust path.
    pub(crate) library: String,
    /// The kind in CamelCase.
    pub(crate) kind: String,
    /// The kind as the name of a Rust module.
    pub(crate) module: String,
    /// The API group.
    pub(crate) group: String,
    /// The API version.
    pub(crate) version: String,
}

impl Names {
    /// Validates the names and completes the rest.
    ///
    /// # Errors
    /// If a name is invalid in Cargo or in Kubernetes.
    pub(crate) fn new(
        operator: &str,
        kind: Option<&str>,
        group: &str,
        version: &str,
    ) -> anyhow::Result<Self> {
        if !is_label(operator) || !operator.starts_with(|c: char| c.is_ascii_lowercase()) {
            bail!(
                "invalid name {operator:?}: it must consist of lower case letters, digits and '-', \
                 begin with a letter and end with a letter or digit, for example web-operator"
            );
        }
        let kind = match kind {
            Some(kind) => kind.to_owned(),
            None => default_kind(operator),
        };
        Self::in_package(operator, &operator.replace('-', "_"), &kind, group, version)
    }

    /// Same as [`new`](Self::new), for a kind in a package that exists.
    ///
    /// # Errors
    /// If a name of the kind is invalid in Kubernetes.
    pub(crate) fn in_package(
        operator: &str,
        library: &str,
        kind: &str,
        group: &str,
        version: &str,
    ) -> anyhow::Result<Self> {
        check_kind(kind)?;
        if group.is_empty() || !group.contains('.') || !group.split('.').all(is_label) {
            bail!("invalid group {group:?}: it must be a DNS subdomain, for example example.com");
        }
        if !is_version(version) {
            bail!("invalid version {version:?}: examples are v1, v1beta1 and v2alpha3");
        }
        Ok(Self {
            operator: operator.to_owned(),
            library: library.to_owned(),
            module: snake_case(kind),
            kind: kind.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
        })
    }
}

/// Fails if `kind` is not a kind in CamelCase, or collides with a name in the generated code.
pub(crate) fn check_kind(kind: &str) -> anyhow::Result<()> {
    let valid = kind.starts_with(|c: char| c.is_ascii_uppercase())
        && kind.chars().all(|c| c.is_ascii_alphanumeric())
        && kind.len() <= 63;
    if !valid {
        bail!("invalid kind {kind:?}: it must be in CamelCase, for example Website");
    }
    /// Names that the generated code imports, and modules that it has.
    const TAKEN: &[&str] = &[
        "Action",
        "Api",
        "Arc",
        "Client",
        "Condition",
        "Conditions",
        "ConfigMap",
        "Context",
        "Deployment",
        "Key",
        "Kind",
        "Lib",
        "Main",
        "Manager",
        "Patch",
        "Predicate",
        "Provider",
        "Reconciler",
        "Resource",
        "Result",
        "Service",
        "Source",
        "Watch",
        "Webhook",
    ];
    if TAKEN.contains(&kind) {
        bail!("the kind {kind} collides with a name of the generated code; choose another one");
    }
    let module = snake_case(kind);
    if syn::parse_str::<syn::Ident>(&module).is_err() {
        bail!("the kind {kind} collides with the keyword {module} of Rust; choose another one");
    }
    Ok(())
}

/// Whether `text` is a DNS label.
pub(crate) fn is_label(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(|c| alphanumeric(c) || c == '-')
        && text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
}

/// Whether `text` is a version as Kubernetes orders them: `v1`, `v1beta1`, `v2alpha3`.
pub(crate) fn is_version(text: &str) -> bool {
    let number = |text: &str| {
        !text.is_empty() && !text.starts_with('0') && text.chars().all(|c| c.is_ascii_digit())
    };
    let Some(rest) = text.strip_prefix('v') else { return false };
    let stability = ["alpha", "beta"].iter().find_map(|it| rest.split_once(it));
    match stability {
        Some((major, minor)) => number(major) && number(minor),
        None => number(rest),
    }
}

fn default_kind(operator: &str) -> String {
    let stem = operator.strip_suffix("-operator").or_else(|| operator.strip_suffix("-controller"));
    let words = stem.unwrap_or(operator).split('-').filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (first, rest) = word.split_at(1);
            format!("{}{rest}", first.to_ascii_uppercase())
        })
        .collect()
}

/// Returns `AppService` as `app_service`.
pub(crate) fn snake_case(kind: &str) -> String {
    let mut module = String::with_capacity(kind.len() + 4);
    let mut previous = None::<char>;
    let mut characters = kind.chars().peekable();
    while let Some(c) = characters.next() {
        let begins = c.is_ascii_uppercase()
            && previous.is_some_and(|it| !it.is_ascii_uppercase())
            // The last capital of an acronym begins a word: HTTPRoute is http_route.
            || c.is_ascii_uppercase()
                && previous.is_some()
                && characters.peek().is_some_and(char::is_ascii_lowercase);
        if begins {
            module.push('_');
        }
        module.push(c.to_ascii_lowercase());
        previous = Some(c);
    }
    module
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_module_follow_from_the_name() {
        let names = Names::new("web-app-operator", None, "example.com", "v1").unwrap();
        assert_eq!((&*names.kind, &*names.module), ("WebApp", "web_app"));
        assert_eq!(names.library, "web_app_operator");
        let names = Names::new("greeter", Some("HTTPRoute"), "example.com", "v1beta1").unwrap();
        assert_eq!(names.module, "http_route");
        assert_eq!(snake_case("AppService2"), "app_service2");
    }

    #[test]
    fn invalid_names_are_rejected_with_an_example() {
        let refused = |operator, kind, group, version| {
            Names::new(operator, kind, group, version).unwrap_err().to_string()
        };
        for name in ["", "Web", "1web", "web_operator", "web-", "-web"] {
            assert!(refused(name, Some("Web"), "example.com", "v1").starts_with("invalid name"));
        }
        for kind in ["web", "Web-App", "", "Wéb"] {
            assert!(refused("web", Some(kind), "example.com", "v1").starts_with("invalid kind"));
        }
        for kind in ["Deployment", "Loop"] {
            assert!(refused("web", Some(kind), "example.com", "v1").contains("collides"));
        }
        for group in ["", "example", "Example.com", "example..com"] {
            assert!(refused("web", None, group, "v1").starts_with("invalid group"));
        }
        for version in ["1", "v", "v0", "v1gamma1", "v1beta", "v1beta0"] {
            let text = refused("web", None, "example.com", version);
            assert!(text.starts_with("invalid version"), "{version}: {text}");
        }
    }
}
