//! The file of the audit log and its rotation.

use jiff::civil::date;
use jiff::tz::TimeZone;

use super::*;
use crate::audit::Level;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("evenkeel-audit-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns an event on a day of January 2026.
fn event(day: i8) -> Event {
    let time = date(2026, 1, day).at(12, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp();
    Event::received(Level::Metadata, format!("id-{day}"), time)
}

#[test]
fn events_are_appended_as_lines_with_owner_only_permissions() {
    let scratch = Scratch::new("append");
    let path = scratch.0.join("logs/audit.log");
    for day in [1, 2] {
        let log = LogFile::open(&path, LogOptions::default()).unwrap();
        assert!(log.process(&event(day)));
        log.flush();
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(lines, usize::try_from(day).unwrap());
    }
    let text = fs::read_to_string(&path).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["auditID"], "id-2");
    assert_eq!(last["requestReceivedTimestamp"], "2026-01-02T12:00:00.000000Z");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn full_files_are_rotated_and_old_ones_deleted() {
    let scratch = Scratch::new("rotate");
    let path = scratch.0.join("audit.log");
    let options = LogOptions { max_size: 1, max_age: 0, max_backups: 2 };
    let log = LogFile::open(&path, options).unwrap();
    for day in 1..=5 {
        let mut large = event(day);
        large.user_agent = "x".repeat(700 << 10);
        assert!(log.process(&large));
    }
    drop(log);
    assert_eq!(
        scratch.files(),
        ["audit-2026-01-04T12-00-00.000.log", "audit-2026-01-05T12-00-00.000.log", "audit.log"]
    );
    let options = LogOptions { max_size: 1, max_age: 2, max_backups: 0 };
    let log = LogFile::open(&path, options).unwrap();
    let mut large = event(7);
    large.user_agent = "x".repeat(700 << 10);
    log.process(&large);
    drop(log);
    assert_eq!(
        scratch.files(),
        ["audit-2026-01-05T12-00-00.000.log", "audit-2026-01-07T12-00-00.000.log", "audit.log"]
    );
}

#[test]
fn events_beyond_the_queue_are_dropped_without_blocking() {
    // Its thread is not started, like one that waits for a disk.
    let log = LogFile { queue: Arc::default(), thread: None };
    let mut large = event(1);
    large.user_agent = "x".repeat(1 << 20);
    let accepted = (0..100).filter(|_| log.process(&large)).count();
    assert_eq!(accepted, 63);
}
