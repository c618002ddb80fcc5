//! Records the changes of the files in chosen directories, for tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// The identity of a file, whatever its name.
pub(in super::super) type Inode = u64;

/// A change of a directory or of a file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Change {
    Create { name: String, inode: Inode },
    Write { inode: Inode, position: u64, bytes: Vec<u8> },
    SetLen { inode: Inode, length: u64 },
    Sync { inode: Inode },
    Rename { from: String, to: String },
    Remove { name: String },
    SyncDirectory,
}

/// The changes of a directory.
#[derive(Debug, Default)]
pub(in super::super) struct Recording {
    /// The changes, with the name of the file at that time, and whether the thread of a snapshot
    /// made them.
    pub(in super::super) changes: Vec<(Change, String, bool)>,
    pub(in super::super) names: BTreeMap<String, Inode>,
    pub(in super::super) last_inode: Inode,
}

static RECORDINGS: Mutex<BTreeMap<PathBuf, Arc<Mutex<Recording>>>> = Mutex::new(BTreeMap::new());

/// Records the changes of a directory with these files from now on.
pub(in super::super) fn start(
    directory: &Path,
    names: BTreeMap<String, Inode>,
    last_inode: Inode,
) -> Arc<Mutex<Recording>> {
    let recording = Arc::new(Mutex::new(Recording { changes: Vec::new(), names, last_inode }));
    RECORDINGS.lock().insert(directory.to_owned(), recording.clone());
    recording
}

/// Ends the recording of a directory.
pub(in super::super) fn stop(directory: &Path) {
    RECORDINGS.lock().remove(directory);
}

fn of(path: &Path) -> Option<Arc<Mutex<Recording>>> {
    RECORDINGS.lock().get(path.parent()?).cloned()
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Recording {
    fn push(&mut self, change: Change, name: &str) {
        let snapshot = std::thread::current().name() == Some("storage-snapshot");
        self.changes.push((change, name.to_owned(), snapshot));
    }
}

pub(super) fn renamed(from: &Path, to: &Path) {
    let Some(recording) = of(from) else { return };
    let (from, to) = (name(from), name(to));
    let mut recording = recording.lock();
    if let Some(inode) = recording.names.remove(&from) {
        recording.names.insert(to.clone(), inode);
    }
    recording.push(Change::Rename { from: from.clone(), to }, &from);
}

pub(super) fn removed(path: &Path) {
    let Some(recording) = of(path) else { return };
    let name = name(path);
    let mut recording = recording.lock();
    recording.names.remove(&name);
    recording.push(Change::Remove { name: name.clone() }, &name);
}

pub(super) fn synced_parent(path: &Path) {
    let Some(recording) = of(path) else { return };
    recording.lock().push(Change::SyncDirectory, &name(path));
}

/// An open file, if its directory is recorded.
pub(super) struct OpenFile {
    recording: Option<(Arc<Mutex<Recording>>, Inode, String)>,
    position: u64,
}

impl OpenFile {
    pub(super) fn created(path: &Path) -> Self {
        let recording = of(path).map(|recording| {
            let name = name(path);
            let mut locked = recording.lock();
            locked.last_inode += 1;
            let inode = locked.last_inode;
            locked.names.insert(name.clone(), inode);
            locked.push(Change::Create { name: name.clone(), inode }, &name);
            drop(locked);
            (recording, inode, name)
        });
        Self { recording, position: 0 }
    }

    pub(super) fn existing(path: &Path, position: u64) -> Self {
        let recording = of(path).and_then(|recording| {
            let name = name(path);
            let inode = recording.lock().names.get(&name).copied()?;
            Some((recording, inode, name))
        });
        Self { recording, position }
    }

    pub(super) fn seek(&mut self, position: u64) {
        self.position = position;
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        let position = self.position;
        self.position += bytes.len() as u64;
        self.push(|inode| Change::Write { inode, position, bytes: bytes.to_vec() });
    }

    pub(super) fn set_len(&mut self, length: u64) {
        self.push(|inode| Change::SetLen { inode, length });
    }

    pub(super) fn sync(&mut self) {
        self.push(|inode| Change::Sync { inode });
    }

    fn push(&self, change: impl FnOnce(Inode) -> Change) {
        if let Some((recording, inode, name)) = &self.recording {
            recording.lock().push(change(*inode), name);
        }
    }
}
