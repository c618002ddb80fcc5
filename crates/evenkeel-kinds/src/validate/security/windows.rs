//! Validates the Windows options of security contexts.

use serde_json::Value;

use super::super::pod::each_container;
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::checks;

pub(super) fn options(errs: &mut Errors, path: Path<'_>, options: &Value) {
    if options.is_null() {
        return;
    }
    if let Some(name) = options.text_opt("gmsaCredentialSpecName") {
        checks::dns1123_subdomain(errs, path.child("gmsaCredentialSpecName"), name);
    }
    if let Some(spec) = options.text_opt("gmsaCredentialSpec") {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errs.invalid(path, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > 64 * 1024 {
            errs.invalid(path, spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(name) = options.text_opt("runAsUserName") {
        run_as_user_name(errs, path.child("runAsUserName"), name);
    }
}

fn run_as_user_name(errs: &mut Errors, path: Path<'_>, name: &str) {
    if name.is_empty() {
        errs.invalid(path, name, "runAsUserName cannot be an empty string");
        return;
    }
    if name.bytes().any(|b| b.is_ascii_control()) {
        errs.invalid(path, name, "runAsUserName cannot contain control characters");
        return;
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, rest)) if rest.contains('\\') => {
            errs.invalid(path, name, "runAsUserName cannot contain more than one backslash");
            return;
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            let detail = "runAsUserName's Domain length must be under 256 characters";
            errs.invalid(path, name, detail);
        }
        if !is_net_bios(domain) && !is_dns(domain) {
            let detail = "runAsUserName's Domain doesn't match the NetBios nor the DNS format";
            errs.invalid(path, name, detail);
        }
    }
    if user.is_empty() {
        errs.invalid(path, name, "runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        let detail = "runAsUserName's User length must not be longer than 104 characters";
        errs.invalid(path, name, detail);
    }
    if !user.is_empty() && user.bytes().all(|b| b == b'.' || b == b' ') {
        errs.invalid(path, name, "runAsUserName's User cannot contain only periods or spaces");
    }
    if user
        .contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']'])
    {
        let detail =
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        errs.invalid(path, name, detail);
    }
}

fn is_net_bios(domain: &str) -> bool {
    let allowed = |c: char| !matches!(c, '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && domain.chars().all(allowed)
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
            && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
    })
}

/// Checks that either all containers or none are HostProcess containers.
pub(in crate::validate) fn host_process(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let of = |context: &Value| context.at("windowsOptions").flag("hostProcess");
    let pod = of(spec.at("securityContext"));
    let (mut all, mut host_process_count) = (0, 0);
    each_container(spec, path, |container, path| {
        all += 1;
        let own = of(container.at("securityContext"));
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let path = path.child("securityContext");
            let path = path.child("windowsOptions");
            let detail =
                format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errs.invalid(path.child("hostProcess"), own, detail);
        }
        host_process_count += i32::from(own.or(pod) == Some(true));
    });
    if host_process_count == 0 {
        return;
    }
    if host_process_count != all {
        let detail = "If pod contains any hostProcess containers then all containers must be \
                      HostProcess containers";
        errs.invalid(path, "", detail);
    }
    if !spec.is("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errs.invalid(path.child("hostNetwork"), false, detail);
    }
}
