//! Runs the command in temporary directories.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

/// How long a process may print nothing.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A temporary directory, removed on drop.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir.canonicalize().unwrap())
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.0.join("evenkeel.kubeconfig")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Fails the test unless the command succeeded.
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }
}

/// Returns the command with arguments, in a directory.
pub(crate) fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    // The cluster of the developer must not be used by accident.
    command.env("KUBECONFIG", directory.join("evenkeel.kubeconfig"));
    command
}

/// Runs the command and waits for its end.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Output {
    let output = command(directory, arguments).output().unwrap();
    Output {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The lines that a process prints, as they are printed.
pub(crate) struct Lines(mpsc::Receiver<String>);

impl Lines {
    /// Reads from `pipe` in a thread, which ends with the pipe.
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(pipe).lines().map_while(Result::ok);
            lines.map_while(|line| sender.send(line).ok()).count()
        });
        Self(lines)
    }

    /// Waits for a line that contains `text`, and returns what was printed up to it.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        let mut all = String::new();
        loop {
            let Ok(line) = self.0.recv_timeout(TIMEOUT) else {
                panic!("{text:?} was not printed within {TIMEOUT:?}: {all}");
            };
            all.push_str(&line);
            all.push('\n');
            if line.contains(text) {
                return all;
            }
        }
    }

    /// Waits until no process can print any more.
    #[track_caller]
    pub(crate) fn end(&mut self) {
        loop {
            match self.0.recv_timeout(TIMEOUT) {
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("a process did not end"),
            }
        }
    }
}

/// A cluster in the background, stopped on drop.
pub(crate) struct Background<'a>(&'a TempDir);

impl<'a> Background<'a> {
    pub(crate) fn start(dir: &'a TempDir, arguments: &[&str]) -> Self {
        let all = [&["cluster", "start", "--detach"], arguments].concat();
        run(&dir.0, &all).success();
        Self(dir)
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        let stopped = command(&self.0.0, &["cluster", "stop"]).output();
        if !std::thread::panicking() {
            let stopped = stopped.unwrap();
            assert!(stopped.status.success(), "{stopped:?}");
        }
    }
}

/// Runs a future that makes requests.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

/// Calls `condition`, which makes requests, until it is true.
///
/// # Panics
/// If it is not true within two minutes.
pub(crate) async fn wait_for(what: &str, condition: impl AsyncFn() -> bool) {
    let found = async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    };
    let found = tokio::time::timeout(TIMEOUT, found).await;
    assert!(found.is_ok(), "not within {TIMEOUT:?}: {what}");
}

/// Returns a client of the cluster that was started in a directory.
pub(crate) async fn client(dir: &TempDir) -> evenkeel::kube::Client {
    client_of(&dir.kubeconfig()).await
}

/// Returns a client with a kubeconfig.
pub(crate) async fn client_of(kubeconfig: &Path) -> evenkeel::kube::Client {
    use evenkeel::kube::config::{KubeConfigOptions, Kubeconfig};
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = evenkeel::kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
    evenkeel::kube::Client::try_from(config).unwrap()
}

/// Returns the executable of an example operator.
pub(crate) fn example(name: &str) -> PathBuf {
    operator().with_file_name(name)
}

/// Returns the executable of the README's operator, which is an example of this workspace.
pub(crate) fn operator() -> &'static Path {
    static OPERATOR: OnceLock<PathBuf> = OnceLock::new();
    OPERATOR.get_or_init(|| {
        // As a dependency of a test, with the features of the whole workspace: up to date after
        // `cargo test --workspace`. Without this test, Cargo would compile dependencies that macros and
        // this package share again, and all that uses them.
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "--workspace", "--test", "command_line", "--test", "commands"]);
        cargo.args(["--no-run", "--quiet"]);
        // Variables that Cargo set for this test would make build scripts run again.
        let set =
            |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|it| name.starts_with(it));
        for (name, _) in std::env::vars().filter(|(name, _)| set(name)) {
            cargo.env_remove(name);
        }
        let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Path::new(env!("CARGO_BIN_EXE_evenkeel")).with_file_name("greeting")
    })
}
