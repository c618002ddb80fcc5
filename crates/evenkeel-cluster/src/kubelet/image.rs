//! Simulated image pulls. Every pull succeeds, unless the image name is not a valid reference, its
//! registry is under the top-level domain `invalid`, which no registry can have (RFC 2606), or the
//! simulation of the container fails it.

use super::pod_containers::PodContainer;

/// Why a container has no image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PullError {
    /// The name is not a valid reference.
    InvalidName,
    /// The pull policy is `Never` and the image is not on the node.
    NeverPull,
    /// The image or its registry does not exist.
    NotFound,
}

impl PullError {
    /// Returns the reason of the waiting state.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::InvalidName => "InvalidImageName",
            Self::NeverPull => "ErrImageNeverPull",
            Self::NotFound => "ErrImagePull",
        }
    }

    /// Returns the message of the kubelet.
    pub(super) fn message(self, image: &str) -> String {
        match self {
            Self::InvalidName => format!(
                "Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: \
                 invalid reference format"
            ),
            Self::NeverPull => {
                format!("Container image {image:?} is not present with pull policy of Never")
            }
            Self::NotFound => match invalid_host(image) {
                Some(host) => format!(
                    "rpc error: code = Unknown desc = failed to resolve reference {image:?}: \
                     lookup {host}: no such host"
                ),
                None => format!(
                    "rpc error: code = NotFound desc = failed to pull and unpack image {image:?}: \
                     not found"
                ),
            },
        }
    }
}

/// Returns why the image of a container cannot be used, if so. `fails` is whether the simulation
/// fails the pull, `pulls` whether the image has to be pulled.
pub(super) fn check(container: &PodContainer<'_>, fails: bool, pulls: bool) -> Option<PullError> {
    if !is_reference(container.image) {
        Some(PullError::InvalidName)
    } else if !pulls || (!fails && invalid_host(container.image).is_none()) {
        None
    } else if container.pull_policy == "Never" {
        Some(PullError::NeverPull)
    } else {
        Some(PullError::NotFound)
    }
}

/// Returns the host of an image's registry if it cannot exist.
fn invalid_host(image: &str) -> Option<&str> {
    let (first, _) = image.split_once('/')?;
    let host = first.split_once(':').map_or(first, |(host, _)| host);
    host.ends_with(".invalid").then_some(host)
}

/// Whether the text is an image reference: `[registry/]path[:tag][@digest]`.
fn is_reference(text: &str) -> bool {
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (text, None),
    };
    let path_start = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name[path_start..].find(':') {
        Some(colon) => (&name[..path_start + colon], Some(&name[path_start + colon + 1..])),
        None => (name, None),
    };
    let path = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => rest,
        _ => name,
    };
    // A 64-digit hexadecimal name is rejected, since it is ambiguous with an image ID.
    let is_id = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.len() <= 255
        && !is_id
        && path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
}

/// Whether the first component of a name is a valid registry host.
fn is_registry(text: &str) -> bool {
    let marked = text == "localhost" || text.contains(['.', ':']);
    if !marked && !text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return false;
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_v6 = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (is_v6(host) || host.split('.').all(is_label)) && port.is_none_or(is_port)
}

/// Whether the text is a path component: lower-case letters and digits, separated by single dots,
/// one or two underscores or any number of dashes.
fn is_component(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let between = text.split(is_word).filter(|separator| !separator.is_empty());
    let separated = between.clone().all(|separator| {
        matches!(separator, "." | "_" | "__") || separator.chars().all(|c| c == '-')
    });
    text.starts_with(is_word) && text.ends_with(is_word) && separated
}

fn is_tag(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128
        && text.starts_with(is_word)
        && text.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(is_name)
        && hex.len() >= 32
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_references_are_validated() {
        let digest = format!("sha256:{}", "0f".repeat(32));
        let pinned = format!("registry.k8s.io/pause:3.10@{digest}");
        for valid in [
            "nginx",
            "app:1",
            "busybox:1.36.1-glibc",
            "registry.k8s.io/e2e-test-images/agnhost:2.53",
            "localhost:5000/app",
            "localhost/a__b/c.d/e---f:v_1",
            "UPPER/app",
            "[fd00::1]:5000/app:2",
            "quay.io:443/x/y",
            pinned.as_str(),
        ] {
            assert!(is_reference(valid), "{valid}");
        }
        for invalid in [
            "",
            "App",
            "nginx:",
            "nginx:la test",
            "a//b",
            "-app",
            "app_",
            "a..b",
            "a___b",
            "host:port/app",
            "quay.io/App",
            "app@sha256:12",
            "app:!",
            "https://quay.io/app",
            &digest[7..],
        ] {
            assert!(!is_reference(invalid), "{invalid}");
        }
    }
}
