//! The debug socket: how `evenkeel why`, `queue` and other commands reach a running operator.
//!
//! It is a Unix socket that only the user of the process can open (mode 0600), and there is none
//! unless the variable `EVENKEEL_DEBUG_SOCKET` has a path. `evenkeel run` and `evenkeel dev` set
//! it. In a cluster it stays off: a port would have to authenticate its clients.
//!
//! A client sends one line of JSON, a [`Request`], and receives lines of JSON until the socket is
//! closed. An error is a line with the field `error`.

mod json;

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Inner, Manager};
use crate::controller::ControllerHandle;
use crate::error::Result;
use crate::journal::Record;
use crate::key::Key;
use crate::lifecycle::{Group, Pending};

/// The variable with the path of the socket.
const VARIABLE: &str = "EVENKEEL_DEBUG_SOCKET";

/// The number of clients at a time.
const CLIENTS_MAX: usize = 32;

/// The size of a request.
const REQUEST_MAX: u64 = 16 << 10;

/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of keys of a queue that are listed.
const ITEMS_MAX: usize = 1000;

/// What a client requests.
#[derive(Debug, Deserialize)]
#[serde(tag = "method", rename_all = "camelCase", deny_unknown_fields)]
enum Request {
    /// The operator, its controllers and their counts.
    Status,
    /// The reconciles in the journal, and further ones if `follow`.
    Records {
        #[serde(default)]
        object: Selection,
        #[serde(default)]
        follow: bool,
    },
    /// The keys in the workqueues.
    Queue {
        #[serde(default)]
        object: Selection,
    },
    /// The cached types.
    Cache,
    /// Stops or restarts taking keys from the workqueues.
    Pause {
        #[serde(default)]
        object: Selection,
        paused: bool,
    },
    /// Reconciles an object.
    Trigger { object: Selection },
}

/// Selects controllers and objects; what is not set matches all.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Selection {
    controller: Option<String>,
    /// A kind, in any case.
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Selection {
    fn controllers(&self, inner: &Inner) -> Result<Vec<ControllerHandle>> {
        let all = inner.environment.controllers();
        let found: Vec<_> = all.iter().filter(|it| self.has_controller(it)).cloned().collect();
        // An operator with webhooks only has no controllers.
        if found.is_empty() && (self.controller.is_some() || self.kind.is_some()) {
            let names: Vec<_> = all.iter().map(ControllerHandle::name).collect();
            return Err(format!("no such controller; there are {}", names.join(", ")).into());
        }
        Ok(found)
    }

    fn has_controller(&self, controller: &ControllerHandle) -> bool {
        let kind = &controller.registered_types().reconciled;
        let same = |given: &String, found: &str| given.eq_ignore_ascii_case(found);
        self.controller.as_ref().is_none_or(|name| name == controller.name())
            && self.kind.as_ref().is_none_or(|it| same(it, kind.kind()) || same(it, kind.plural()))
    }

    fn has_key(&self, key: &Key) -> bool {
        // A cluster-scoped object has no namespace.
        let namespace = |given: &String| key.namespace().is_none_or(|found| found == given);
        self.name.as_ref().is_none_or(|name| name == key.name())
            && self.namespace.as_ref().is_none_or(namespace)
    }
}

/// Adds the server of the socket to a manager, if there is to be one.
pub(super) fn start(manager: &Manager) {
    let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(path) = path {
        serve_at(manager, path);
    }
}

fn serve_at(manager: &Manager, path: PathBuf) {
    let inner = Arc::downgrade(&manager.0);
    let server = Pending::new(Group::Servers, "debug socket", move |stop| run(path, inner, stop));
    // Fails only if the manager is stopping.
    let _ = manager.0.environment.lifecycle.push(server);
}

/// Serves the socket until `stop`.
///
/// # Errors
/// When the socket cannot be created.
async fn run(path: PathBuf, inner: Weak<Inner>, stop: CancellationToken) -> Result<()> {
    let listener = bind(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    tracing::debug!(path = %path.display(), "serving the debug socket");
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = clients.join_next() => {}
            accepted = listener.accept(), if clients.len() < CLIENTS_MAX => {
                if let (Ok((stream, _)), Some(inner)) = (accepted, inner.upgrade()) {
                    clients.spawn(async move {
                        // A client that is gone needs no response.
                        let _ = serve(stream, inner).await;
                    });
                }
            }
        }
    }
    clients.shutdown().await;
    let _ = std::fs::remove_file(&path);
    Ok(())
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    // Of an operator that was killed.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn serve(mut stream: UnixStream, inner: Arc<Inner>) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut line = String::new();
    let mut reader = BufReader::new(reader.take(REQUEST_MAX));
    let read = tokio::time::timeout(REQUEST_TIMEOUT, reader.read_line(&mut line));
    read.await.map_err(|_| io::ErrorKind::TimedOut)??;
    let response = match serde_json::from_str::<Request>(&line) {
        Ok(request) => respond(&request, &inner),
        Err(error) => Err(error.into()),
    };
    let (lines, follow) = match response {
        Ok(response) => response,
        Err(error) => (vec![json!({"error": error.to_string()})], None),
    };
    for value in lines {
        send(&mut writer, &value).await?;
    }
    if let Some(mut records) = follow {
        // The journals end with the manager.
        drop(inner);
        while let Some(record) = records.recv().await {
            send(&mut writer, &json::record(&record)).await?;
        }
    }
    writer.shutdown().await
}

async fn send(writer: &mut (impl tokio::io::AsyncWrite + Unpin), value: &Value) -> io::Result<()> {
    let mut line = value.to_string();
    line.push('\n');
    writer.write_all(line.as_bytes()).await
}

/// Receives the records of several journals.
struct Records(tokio::sync::mpsc::Receiver<Arc<Record>>, #[expect(dead_code)] JoinSet<()>);

impl Records {
    fn follow(controllers: &[ControllerHandle], object: &Selection) -> Self {
        let (sender, receiver) = tokio::sync::mpsc::channel(64);
        let mut tasks = JoinSet::new();
        for controller in controllers {
            let mut follower = controller.journal().follow();
            let sender = sender.clone();
            let (namespace, name) = (object.namespace.clone(), object.name.clone());
            let object = Selection { namespace, name, ..Selection::default() };
            tasks.spawn(async move {
                while let Some(record) = follower.recv().await {
                    if object.has_key(&record.key) && sender.send(record).await.is_err() {
                        return;
                    }
                }
            });
        }
        Self(receiver, tasks)
    }

    async fn recv(&mut self) -> Option<Arc<Record>> {
        self.0.recv().await
    }
}

/// Returns the lines of the response, and what follows.
fn respond(request: &Request, inner: &Inner) -> Result<(Vec<Value>, Option<Records>)> {
    let lines = match request {
        Request::Status => vec![json::status(inner)],
        Request::Records { object, follow } => {
            let controllers = object.controllers(inner)?;
            let following = follow.then(|| Records::follow(&controllers, object));
            let mut records = Vec::new();
            for controller in &controllers {
                records.extend(controller.journal().records());
            }
            records.retain(|record| object.has_key(&record.key));
            records.sort_by_key(|record| record.started);
            return Ok((records.iter().map(|it| json::record(it)).collect(), following));
        }
        Request::Queue { object } => {
            let mut lines = Vec::new();
            for controller in object.controllers(inner)? {
                let items = controller.queue().items(ITEMS_MAX);
                let items = items.iter().filter(|item| object.has_key(&item.key));
                lines.extend(items.map(|item| json::item(controller.name(), item)));
            }
            lines
        }
        Request::Cache => json::cache(inner),
        Request::Pause { object, paused } => {
            let controllers = object.controllers(inner)?;
            controllers.iter().for_each(|controller| controller.set_paused(*paused));
            controllers.iter().map(json::controller).collect()
        }
        Request::Trigger { object } => {
            let name = object.name.as_deref().ok_or("the name of the object is missing")?;
            let controllers = object.controllers(inner)?;
            for controller in &controllers {
                let namespaced = controller.registered_types().reconciled.namespaced();
                let key = match (namespaced, object.namespace.as_deref()) {
                    (true, Some(namespace)) => Key::namespaced(namespace, name),
                    (true, None) => return Err("the namespace of the object is missing".into()),
                    (false, _) => Key::cluster(name),
                };
                controller.enqueue(key, "evenkeel trigger");
            }
            controllers.iter().map(json::controller).collect()
        }
    };
    Ok((lines, None))
}
