//! Metrics of the process, by the names of Prometheus' clients. Only Linux has them.

use std::fs;

use super::{Define, Description, Kind, Samples};

/// The unit of times in `/proc`: `USER_HZ`, which is 100 on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

const FAMILIES: [Description; 6] = [
    family("process_cpu_seconds_total", "CPU time of the process.", Kind::Counter),
    family("process_max_fds", "Limit of open files.", Kind::Gauge),
    family("process_open_fds", "Number of open files.", Kind::Gauge),
    family("process_resident_memory_bytes", "Resident memory.", Kind::Gauge),
    family("process_start_time_seconds", "Start of the process as Unix time.", Kind::Gauge),
    family("process_virtual_memory_bytes", "Virtual memory.", Kind::Gauge),
];

const fn family(name: &'static str, help: &'static str, kind: Kind) -> Description {
    Description { name, help, kind, labels: &[] }
}

pub(super) fn register(define: &Define) {
    if cfg!(target_os = "linux") {
        define.collector(&FAMILIES, collect);
    }
}

/// Reads the values from `/proc`; one that cannot be read is omitted.
fn collect(samples: &mut Samples<'_>) {
    let mut add = |name, value: Option<f64>| {
        if let Some(value) = value {
            samples.add(name, &[], value);
        }
    };
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let stat = Stat::parse(&stat);
    add("process_cpu_seconds_total", stat.as_ref().map(|stat| stat.cpu / TICKS_PER_SECOND));
    let boot = fs::read_to_string("/proc/stat").ok().as_deref().and_then(boot_time);
    let start = stat.and_then(|stat| Some(boot? + stat.start / TICKS_PER_SECOND));
    add("process_start_time_seconds", start);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    add("process_resident_memory_bytes", kilobytes(&status, "VmRSS:"));
    add("process_virtual_memory_bytes", kilobytes(&status, "VmSize:"));
    let files = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    add("process_open_fds", files.map(|files| files as f64));
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    add("process_max_fds", file_limit(&limits));
}

struct Stat {
    cpu: f64,
    start: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the name in parentheses, which may contain anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self { cpu: field(14)? + field(15)?, start: field(22)? })
    }
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

fn file_limit(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => None,
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_and_parentheses_do_not_shift_the_fields() {
        let text = format!("7 (a ) b) S {} 250 50 {} 900 {}", "0 ".repeat(10), "0 ".repeat(6), 1);
        let stat = Stat::parse(&text).unwrap();
        assert_eq!((stat.cpu, stat.start), (300.0, 900.0));
        assert!(Stat::parse("7 (a) S 1").is_none());
    }

    #[test]
    fn lines_of_proc_are_parsed() {
        assert_eq!(kilobytes("VmSize:\t  10 kB\nVmRSS:\t  2 kB\n", "VmRSS:"), Some(2048.0));
        assert_eq!(kilobytes("VmRSS:\t2\n", "VmRSS:"), None);
        assert_eq!(boot_time("cpu 1\nbtime 1700000000\n"), Some(1_700_000_000.0));
        let limits = "Limit  Soft Limit  Hard\nMax open files   1024    4096   files\n";
        assert_eq!(file_limit(limits), Some(1024.0));
    }
}
