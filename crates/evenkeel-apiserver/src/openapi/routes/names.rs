//! How groups, versions and kinds appear in paths, tags and operation ids.

/// How a group and version appear in paths, tags and operation ids.
pub(super) struct Names {
    /// `/apis/apps/v1`.
    pub(super) root: String,
    /// `apps_v1`.
    pub(super) tag: String,
    /// `AppsV1`.
    pub(super) prefix: String,
}

impl Names {
    pub(super) fn new(group: &str, version: &str) -> Names {
        let Names { tag, prefix, .. } = Names::of_group(group);
        Names {
            root: match group {
                "" => format!("/api/{version}"),
                _ => format!("/apis/{group}/{version}"),
            },
            tag: format!("{tag}_{}", identifier(version, false)),
            prefix: prefix + &identifier(version, true),
        }
    }

    pub(super) fn of_group(group: &str) -> Names {
        let name = match group {
            "" => "core",
            _ => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        Names {
            root: format!("/apis/{group}"),
            tag: identifier(name, false),
            prefix: identifier(name, true),
        }
    }
}

/// Converts to camel case: drops invalid characters, and capitalizes the letter after each.
pub(super) fn identifier(text: &str, capital: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut raise = capital;
    for (at, character) in text.char_indices() {
        let keep =
            character.is_alphabetic() || character == '_' || (at > 0 && character.is_numeric());
        if !keep {
            raise = true;
        } else if std::mem::take(&mut raise) {
            out.extend(character.to_uppercase());
        } else {
            out.push(character);
        }
    }
    out
}
