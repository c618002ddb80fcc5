//! A disk that loses what was not synced when the power fails.
//!
//! The directory is journaled, as on ext4 and XFS: a power failure keeps the changes of names up to
//! some point. The content of files is not: of the writes after the last sync, any may be kept, lost,
//! or torn, in any order. A kill of the process loses nothing but the rest of a write.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use evenkeel_types::random::SplitMix64;

use super::super::disk::recorded::{Change, Inode};

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    Kill,
    PowerFailure,
}

#[derive(Clone, Debug, Default)]
struct File {
    /// What a power failure keeps.
    durable: Vec<u8>,
    /// The writes since, and new lengths.
    pending: Vec<Change>,
}

/// A disk with one directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    files: BTreeMap<Inode, File>,
    /// The names that a power failure keeps.
    durable_names: BTreeMap<String, Inode>,
    names: BTreeMap<String, Inode>,
    /// The changes of names since the directory was synced.
    pending_names: Vec<Change>,
    last_inode: Inode,
}

impl Disk {
    pub(super) fn names(&self) -> (BTreeMap<String, Inode>, Inode) {
        (self.names.clone(), self.last_inode)
    }

    /// Applies a change that was made completely.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { name, inode } => {
                self.last_inode = self.last_inode.max(*inode);
                self.files.insert(*inode, File::default());
                self.rename(change);
                self.names.insert(name.clone(), *inode);
            }
            Change::Rename { .. } | Change::Remove { .. } => self.rename(change),
            Change::SyncDirectory => {
                self.durable_names = self.names.clone();
                self.pending_names.clear();
            }
            Change::Write { inode, .. } | Change::SetLen { inode, .. } => {
                if let Some(file) = self.files.get_mut(inode) {
                    file.pending.push(change.clone());
                }
            }
            Change::Sync { inode } => {
                if let Some(file) = self.files.get_mut(inode) {
                    for change in std::mem::take(&mut file.pending) {
                        write(&mut file.durable, &change);
                    }
                }
            }
        }
    }

    fn rename(&mut self, change: &Change) {
        change_names(&mut self.names, change);
        self.pending_names.push(change.clone());
    }

    /// Applies the beginning of a write.
    pub(super) fn apply_torn(&mut self, change: &Change, random: &mut SplitMix64) {
        if let Change::Write { inode, position, bytes } = change {
            let kept = below(random, bytes.len() as u64 + 1);
            let bytes = bytes[..kept].to_vec();
            self.apply(&Change::Write { inode: *inode, position: *position, bytes });
        }
    }

    /// Loses what the crash loses.
    pub(super) fn crash(&mut self, crash: Crash, random: &mut SplitMix64) {
        if crash == Crash::Kill {
            return;
        }
        let kept = below(random, self.pending_names.len() as u64 + 1);
        for change in self.pending_names.drain(..).take(kept) {
            change_names(&mut self.durable_names, &change);
        }
        self.names.clone_from(&self.durable_names);
        for file in self.files.values_mut() {
            for mut change in std::mem::take(&mut file.pending) {
                match (random.next() % 4, &mut change) {
                    (0, _) => continue,
                    (1, Change::Write { bytes, .. }) => {
                        bytes.truncate(below(random, bytes.len() as u64 + 1));
                    }
                    // The file system allocated the blocks and did not write all of them.
                    (2, Change::Write { bytes, .. }) => {
                        let from = below(random, bytes.len() as u64 + 1);
                        bytes[from..].fill(0);
                    }
                    _ => {}
                }
                write(&mut file.durable, &change);
            }
        }
        let named: Vec<Inode> = self.names.values().copied().collect();
        self.files.retain(|inode, _| named.contains(inode));
    }

    /// Creates the files in a directory.
    pub(super) fn write_to(&self, directory: &Path) {
        for (name, inode) in &self.names {
            fs::write(directory.join(name), self.content(*inode)).unwrap();
        }
    }

    /// Returns what readers find in a file.
    fn content(&self, inode: Inode) -> Vec<u8> {
        let Some(file) = self.files.get(&inode) else { return Vec::new() };
        let mut content = file.durable.clone();
        file.pending.iter().for_each(|change| write(&mut content, change));
        content
    }
}

fn change_names(names: &mut BTreeMap<String, Inode>, change: &Change) {
    match change {
        Change::Create { name, inode } => {
            names.insert(name.clone(), *inode);
        }
        Change::Rename { from, to } => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        Change::Remove { name } => {
            names.remove(name);
        }
        _ => {}
    }
}

fn write(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { position, bytes, .. } => {
            let start = usize::try_from(*position).unwrap();
            let end = start + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[start..end].copy_from_slice(bytes);
        }
        Change::SetLen { length, .. } => content.resize(usize::try_from(*length).unwrap(), 0),
        _ => {}
    }
}

pub(super) fn below(random: &mut SplitMix64, limit: u64) -> usize {
    usize::try_from(random.next() % limit).unwrap()
}

impl Disk {
    /// Returns the content of the only file whose name begins with `prefix`.
    pub(super) fn content_of(&self, prefix: &str) -> Vec<u8> {
        let found = self.names.iter().find(|(name, _)| name.starts_with(prefix));
        found.map(|(_, inode)| self.content(*inode)).unwrap_or_default()
    }

    /// Changes the content of that file.
    pub(super) fn edit(&mut self, prefix: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut content = self.content_of(prefix);
        change(&mut content);
        let found = self.names.iter().find(|(name, _)| name.starts_with(prefix));
        if let Some((_, inode)) = found {
            self.files.insert(*inode, File { durable: content, pending: Vec::new() });
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.names.remove(name);
    }
}
