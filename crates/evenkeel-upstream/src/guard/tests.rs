//! Child processes end with the process that started them.

use super::*;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir()
        .join(format!("evenkeel-guard-{}-{name}", std::process::id()))
        .join("x");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn shell(script: &str, folder: &Path) -> Guarded {
    Guarded::spawn(Path::new("/bin/sh"), &["-c".to_owned(), script.to_owned()], folder).unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("never: {what}");
}

#[test]
fn dropping_ends_the_child_and_removes_its_folder() {
    let folder = folder("drop");
    let child = shell("echo started; exec sleep 600", &folder);
    until("it starts", || child.last_words().contains("started"));
    drop(child);
    assert!(!folder.exists());
    assert!(!folder.parent().unwrap().exists());
}

#[test]
fn a_child_that_ignores_the_request_is_killed() {
    let folder = folder("stubborn");
    let child = shell("trap '' TERM; echo started; while :; do sleep 0.1; done", &folder);
    until("it starts", || child.last_words().contains("started"));
    drop(child);
    assert!(!folder.exists());
}

#[test]
fn a_child_that_ends_by_itself_is_seen() {
    let folder = folder("short");
    let mut child = shell("exit 3", &folder);
    until("it ends", || !child.is_running());
    assert!(!folder.exists());
}
