//! Validates container probes and lifecycle hooks.

use serde_json::Value;

use super::checks;
use super::read::Read;
use super::report::{Errors, Path};
use crate::names;

/// Validates the three probes of a container.
pub(super) fn probes(errs: &mut Errors, path: Path<'_>, container: &Value, grace: Option<i64>) {
    let once = |errs: &mut Errors, field: &str| {
        let probe = container.at(field);
        if probe.is_null() {
            return;
        }
        self::probe(errs, path.child(field), probe, grace);
        let successes = probe.num("successThreshold");
        if successes != 1 {
            errs.invalid(path.child(field).child("successThreshold"), successes, "must be 1");
        }
    };
    once(errs, "livenessProbe");
    let readiness = container.at("readinessProbe");
    if !readiness.is_null() {
        let path = path.child("readinessProbe");
        probe(errs, path, readiness, grace);
        if let Some(seconds) = readiness.int("terminationGracePeriodSeconds") {
            let path = path.child("terminationGracePeriodSeconds");
            errs.invalid(path, seconds, "must not be set for readinessProbes");
        }
    }
    once(errs, "startupProbe");
}

fn probe(errs: &mut Errors, path: Path<'_>, probe: &Value, grace: Option<i64>) {
    const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
    handler(errs, path, probe, grace, HANDLERS);
    const NUMBERS: &[&str] = &[
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ];
    checks::non_negatives(errs, path, probe, NUMBERS);
    if let Some(seconds) = probe.int("terminationGracePeriodSeconds").filter(|s| *s <= 0) {
        let path = path.child("terminationGracePeriodSeconds");
        errs.invalid(path, seconds, "must be greater than 0");
    }
}

pub(super) fn lifecycle(
    errs: &mut Errors,
    path: Path<'_>,
    lifecycle: &Value,
    grace: Option<i64>,
    os: &Value,
) {
    const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];
    for hook in ["postStart", "preStop"] {
        let action = lifecycle.at(hook);
        if !action.is_null() {
            handler(errs, path.child(hook), action, grace, HANDLERS);
        }
    }
    if let Some(signal) = lifecycle.text_opt("stopSignal") {
        let path = path.child("stopSignal");
        match os.text("name") {
            _ if os.is_null() => {
                errs.forbidden(path, "may not be set for containers with empty `spec.os.name`");
            }
            "windows" if !WINDOWS_SIGNALS.contains(&signal) => {
                errs.not_supported(path, signal, WINDOWS_SIGNALS);
            }
            "linux" if !LINUX_SIGNALS.contains(&signal) => {
                errs.not_supported(path, signal, LINUX_SIGNALS);
            }
            _ => {}
        }
    }
}

const WINDOWS_SIGNALS: &[&str] = &["SIGKILL", "SIGTERM"];

/// Sorted, in the order of error messages.
const LINUX_SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

fn handler(
    errs: &mut Errors,
    path: Path<'_>,
    handlers: &Value,
    grace: Option<i64>,
    possible: &[&str],
) {
    let mut found = false;
    for kind in possible {
        let action = handlers.at(kind);
        if action.is_null() {
            continue;
        }
        let path = path.child(kind);
        if found {
            errs.forbidden(path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *kind {
            "exec" => {
                if action.list("command").is_empty() {
                    errs.required(path.child("command"), "");
                }
            }
            "httpGet" => http_get(errs, path, action),
            "tcpSocket" => checks::port(errs, path.child("port"), action.at("port")),
            "grpc" => checks::port_number(errs, path.child("port"), action.num("port")),
            _ => sleep(errs, path, action.num("seconds"), grace),
        }
    }
    if !found {
        errs.required(path, "must specify a handler type");
    }
}

fn http_get(errs: &mut Errors, path: Path<'_>, action: &Value) {
    checks::required_text(errs, path, action, "path");
    checks::port(errs, path.child("port"), action.at("port"));
    let scheme = action.text("scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errs.not_supported(path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in action.list("httpHeaders") {
        let name = header.text("name");
        errs.reasons(path.child("httpHeaders"), name, names::http_header_name(name));
    }
}

fn sleep(errs: &mut Errors, path: Path<'_>, seconds: i64, grace: Option<i64>) {
    if let Some(grace) = grace
        && !(0..=grace).contains(&seconds)
    {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errs.invalid(path, seconds, detail);
    }
}
