//! Starts an executable, waits for its readiness line and stops it.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Executable {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// The log lines read so far.
    pub(crate) log: Vec<String>,
}

/// A temporary directory, removed on drop.
pub(crate) struct TempDir(PathBuf);

impl Executable {
    pub(crate) fn start(path: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr, log: Vec::new() }
    }

    /// Reads the log up to the line that starts with `prefix` and returns the address at its end.
    pub(crate) fn address_after(&mut self, prefix: &str) -> SocketAddr {
        loop {
            let mut line = String::new();
            let read = self.stderr.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "exited before logging {prefix:?}: {:?}", self.log);
            self.log.push(line.trim_end().to_owned());
            if let Some(address) = line.strip_prefix(prefix) {
                return address.trim().parse().unwrap();
            }
        }
    }

    /// Sends a signal and waits for the process to exit.
    pub(crate) fn stop(self, signal: &str) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        // `Child::wait` has no timeout, so it runs in another thread.
        let (done, status) = mpsc::channel();
        let mut child = self.child;
        thread::spawn(move || done.send(child.wait().unwrap()));
        status.recv_timeout(DEADLINE).expect("the process should exit after the signal")
    }
}

impl TempDir {
    pub(crate) fn new() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("evenkeel-envtest-{}-{number}", std::process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the executable until it exits and returns its output.
pub(crate) fn output(path: &str, arguments: &[&str]) -> Output {
    Command::new(path).args(arguments).output().unwrap()
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Sends a GET over `stream` and returns the status line and body.
pub(crate) fn get(mut stream: impl Read + Write, path: &str) -> (String, String) {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}
