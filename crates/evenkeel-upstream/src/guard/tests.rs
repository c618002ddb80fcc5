//! Child processes end with the process that started them.

use super::*;

fn dir(name: &str) -> PathBuf {
    let dir = std::env::temp_dir()
        .join(format!("evenkeel-guard-{}-{name}", std::process::id()))
        .join("x");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn shell(script: &str, dir: &Path) -> ProcessGuard {
    ProcessGuard::spawn(Path::new("/bin/sh"), &["-c".to_owned(), script.to_owned()], dir).unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("timed out: {what}");
}

#[test]
fn drop_stops_the_child_and_removes_its_directory() {
    let dir = dir("drop");
    let child = shell("echo started; exec sleep 600", &dir);
    until("it starts", || child.log_tail().contains("started"));
    drop(child);
    assert!(!dir.exists());
    assert!(!dir.parent().unwrap().exists());
}

#[test]
fn child_that_ignores_sigterm_is_killed() {
    let dir = dir("stubborn");
    let child = shell("trap '' TERM; echo started; while :; do sleep 0.1; done", &dir);
    until("it starts", || child.log_tail().contains("started"));
    drop(child);
    assert!(!dir.exists());
}

#[test]
fn child_that_exits_by_itself_is_detected() {
    let dir = dir("short");
    let mut child = shell("exit 3", &dir);
    until("it ends", || !child.is_running());
    assert!(!dir.exists());
}
