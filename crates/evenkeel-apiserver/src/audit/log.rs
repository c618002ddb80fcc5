//! The audit log in a file: a line of JSON for each event, with rotation.
//!
//! A thread writes the file, so a slow disk delays no request. Events that it cannot keep up with
//! are dropped beyond a bound of memory.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Condvar, Mutex};

use super::{Event, Sink};

/// Bytes of events that wait to be written. A larger event is accepted if no other one waits.
const QUEUE_BYTES: usize = 64 << 20;

/// The time in the name of a rotated file.
const BACKUP_TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// How the file of an audit log is rotated: the flags `--audit-log-*` of kube-apiserver, with the
/// same defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogOptions {
    /// The megabytes after which the file is rotated; 100 if zero.
    pub max_size: u64,
    /// The days after which rotated files are deleted; never if zero.
    pub max_age: u32,
    /// The number of rotated files that are kept; all if zero.
    pub max_backups: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { max_size: 100, max_age: 366, max_backups: 100 }
    }
}

/// A [`Sink`] that writes a file. Dropping it writes what is queued.
#[derive(Debug)]
pub struct LogFile {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Line>,
    bytes: usize,
    is_writing: bool,
    is_closing: bool,
}

#[derive(Debug)]
struct Line {
    time: Timestamp,
    text: Vec<u8>,
}

impl LogFile {
    /// Opens the file, for appending, or creates it with owner-only permissions. The path `-` is
    /// the standard output.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or no thread can be started.
    pub fn open(path: impl AsRef<Path>, options: LogOptions) -> io::Result<Self> {
        let target = match path.as_ref() {
            path if path.as_os_str() == "-" => Target::Stdout,
            path => Target::File(Rotated::open(path, options)?),
        };
        let queue = Arc::new(Queue::default());
        let shared = queue.clone();
        let thread = thread::Builder::new().name("audit-log".into());
        let thread = thread.spawn(move || shared.write_all(target))?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Waits until everything that is queued is written.
    pub fn flush(&self) {
        let mut state = self.queue.state.lock();
        while state.is_writing || !state.lines.is_empty() {
            self.queue.changed.wait(&mut state);
        }
    }
}

impl Sink for LogFile {
    fn process(&self, event: &Event) -> bool {
        let Ok(mut text) = serde_json::to_vec(event) else { return false };
        text.push(b'\n');
        let mut state = self.queue.state.lock();
        if state.bytes > 0 && state.bytes + text.len() > QUEUE_BYTES {
            return false;
        }
        state.bytes += text.len();
        state.lines.push_back(Line { time: event.stage_timestamp, text });
        self.queue.changed.notify_all();
        true
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.queue.state.lock().is_closing = true;
        self.queue.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// Writes lines until the sink is dropped.
    fn write_all(&self, mut target: Target) {
        let mut has_failed = false;
        loop {
            let lines = {
                let mut state = self.state.lock();
                state.is_writing = false;
                self.changed.notify_all();
                while state.lines.is_empty() && !state.is_closing {
                    self.changed.wait(&mut state);
                }
                if state.lines.is_empty() {
                    return;
                }
                state.is_writing = true;
                std::mem::take(&mut state.lines)
            };
            for line in lines {
                let written = target.write(&line);
                self.state.lock().bytes -= line.text.len();
                match written {
                    Ok(()) => has_failed = false,
                    Err(error) if !has_failed => {
                        has_failed = true;
                        tracing::error!(%error, "cannot write the audit log, events are lost");
                    }
                    Err(_) => {}
                }
            }
        }
    }
}

enum Target {
    Stdout,
    File(Rotated),
}

impl Target {
    fn write(&mut self, line: &Line) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().write_all(&line.text),
            Self::File(file) => file.write(line),
        }
    }
}

/// A file that is renamed when it is full.
struct Rotated {
    path: PathBuf,
    options: LogOptions,
    file: File,
    size: u64,
}

impl Rotated {
    fn open(path: &Path, options: LogOptions) -> io::Result<Self> {
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(directory)?;
        }
        let file = open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), options, file, size })
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let max = match self.options.max_size {
            0 => 100,
            megabytes => megabytes,
        };
        let length = line.text.len() as u64;
        if self.size > 0 && self.size + length > max.saturating_mul(1 << 20) {
            self.rotate(line.time)?;
        }
        self.file.write_all(&line.text)?;
        self.size += length;
        Ok(())
    }

    fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let (stem, extension) = self.name();
        let time = now.strftime(BACKUP_TIME);
        fs::rename(&self.path, self.path.with_file_name(format!("{stem}{time}{extension}")))?;
        self.file = open(&self.path)?;
        self.size = 0;
        self.delete_old(now)
    }

    /// Returns the parts of the name of rotated files, before and after their time.
    fn name(&self) -> (String, String) {
        let part = |part: Option<&std::ffi::OsStr>| {
            part.unwrap_or_default().to_string_lossy().into_owned()
        };
        let extension = match part(self.path.extension()) {
            none if none.is_empty() => none,
            extension => format!(".{extension}"),
        };
        (format!("{}-", part(self.path.file_stem())), extension)
    }

    fn delete_old(&self, now: Timestamp) -> io::Result<()> {
        let (stem, extension) = self.name();
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut backups: Vec<(Timestamp, PathBuf)> = Vec::new();
        for entry in fs::read_dir(directory.unwrap_or(Path::new(".")))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let time = name.strip_prefix(&*stem).and_then(|name| name.strip_suffix(&*extension));
            let time = time.and_then(|time| {
                let time = jiff::fmt::strtime::parse(BACKUP_TIME, time).ok()?;
                time.to_datetime().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()
            });
            backups.extend(time.map(|time| (time.timestamp(), path)));
        }
        backups.sort_by(|a, b| b.cmp(a));
        let age = SignedDuration::from_hours(24 * i64::from(self.options.max_age));
        for (index, (time, path)) in backups.into_iter().enumerate() {
            let is_old = self.options.max_age > 0 && now.duration_since(time) > age;
            if is_old || (self.options.max_backups > 0 && index >= self.options.max_backups) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(test)]
mod tests;
