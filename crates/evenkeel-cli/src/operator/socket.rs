//! The debug sockets of running operators.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

/// The variable that makes an operator serve a socket; see `evenkeel::manager`.
pub(crate) const VARIABLE: &str = "EVENKEEL_DEBUG_SOCKET";

/// How long an operator may take to respond.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the directory of the sockets, which only the user can read.
///
/// # Errors
/// If it cannot be created, or belongs to another user.
fn directory() -> anyhow::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let directory = match std::env::var_os("XDG_RUNTIME_DIR").filter(|it| !it.is_empty()) {
        Some(parent) => PathBuf::from(parent).join("evenkeel"),
        None => std::env::temp_dir().join(format!("evenkeel-{user}")),
    };
    let failed = || format!("cannot use {}", directory.display());
    match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(failed);
        }
        _ => {}
    }
    let found = directory.symlink_metadata().with_context(failed)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        bail!("{} is not a private directory of this user", directory.display());
    }
    Ok(directory)
}

/// Returns a path for the socket of a new operator.
///
/// # Errors
/// If there is no private directory for it.
pub(crate) fn path(operator: &str) -> anyhow::Result<PathBuf> {
    // A path of a socket has at most 107 bytes.
    let name: String = operator.chars().take(40).collect();
    Ok(directory()?.join(format!("{name}.{}.sock", std::process::id())))
}

/// An operator with a debug socket.
#[derive(Clone)]
pub(crate) struct Operator {
    path: PathBuf,
    /// Its name.
    pub(crate) name: String,
}

impl Operator {
    /// Returns the operator behind a socket.
    pub(crate) fn at(name: &str, path: PathBuf) -> Self {
        Self { path, name: name.to_owned() }
    }

    /// Finds a running operator, by its name if there are several.
    ///
    /// # Errors
    /// If there is none, or there are several that match.
    pub(crate) fn find(name: Option<&str>) -> anyhow::Result<Self> {
        let mut found = Vec::new();
        for entry in directory()?.read_dir().context("cannot list the debug sockets")? {
            let path = entry?.path();
            let file = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
            let Some((operator, _)) = file.strip_suffix(".sock").and_then(|it| it.rsplit_once('.'))
            else {
                continue;
            };
            if name.is_some_and(|name| name != operator) {
                continue;
            }
            match UnixStream::connect(&path) {
                Ok(_) => found.push(Self { name: operator.to_owned(), path }),
                // Of a process that was killed.
                Err(_) => drop(std::fs::remove_file(&path)),
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        match (found.pop(), found.is_empty()) {
            (Some(operator), true) => Ok(operator),
            (None, _) => {
                let which = name.map(|name| format!(" {name}")).unwrap_or_default();
                bail!(
                    "no operator{which} is running with a debug socket\n\
                     hint: start it with `evenkeel run` or `evenkeel dev`"
                )
            }
            (Some(last), false) => {
                found.push(last);
                let names: Vec<_> = found.iter().map(|it| &*it.name).collect();
                bail!("several operators are running; choose one with --operator: {}", {
                    names.join(", ")
                })
            }
        }
    }

    /// Sends a request and calls `receive` with each line of the response. `follow` waits for lines
    /// without end.
    ///
    /// # Errors
    /// If the operator does not respond, or responds with an error.
    pub(crate) fn stream(
        &self,
        request: &Value,
        follow: bool,
        mut receive: impl FnMut(Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let failed = || format!("cannot reach the operator {}", self.name);
        let mut stream = UnixStream::connect(&self.path).with_context(failed)?;
        stream.set_read_timeout((!follow).then_some(TIMEOUT)).with_context(failed)?;
        stream.write_all(format!("{request}\n").as_bytes()).with_context(failed)?;
        for line in BufReader::new(stream).lines() {
            let value: Value = serde_json::from_str(&line.with_context(failed)?)?;
            match value.get("error").filter(|_| value.get("object").is_none()) {
                Some(Value::String(error)) => bail!("{}: {error}", self.name),
                _ => receive(value)?,
            }
        }
        Ok(())
    }

    /// Sends a request and returns the lines of the response.
    ///
    /// # Errors
    /// Same as [`stream`](Self::stream).
    pub(crate) fn request(&self, request: &Value) -> anyhow::Result<Vec<Value>> {
        let mut lines = Vec::new();
        self.stream(request, false, |line| {
            lines.push(line);
            Ok(())
        })?;
        Ok(lines)
    }

    /// Returns whether the operator is ready, and its controllers with their counts.
    ///
    /// # Errors
    /// Same as [`stream`](Self::stream).
    pub(crate) fn status(&self) -> anyhow::Result<Value> {
        Ok(self.request(&json!({"method": "status"}))?.pop().unwrap_or_default())
    }
}
