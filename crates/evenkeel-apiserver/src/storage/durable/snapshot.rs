//! Snapshots: all objects at one revision in one file, which replaces the logs before it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::codec::{Payload, put_payload, put_record};
use super::dir::{create_atomically, remove_before, snapshot_path};
use super::disk::DiskFile;
use super::frame;
use super::log::{finish_frame, write_frame};
use crate::storage::table::Pin;

/// The approximate size of a frame of records.
const FRAME: usize = 1 << 20;

/// Writes the pinned tables, then removes the files that the snapshot replaces. Aborts when `stop`
/// is set.
pub(super) fn write(
    dir: &Path,
    revision: u64,
    tables: &[(Arc<str>, Pin)],
    stop: &AtomicBool,
) -> io::Result<()> {
    create_atomically(&snapshot_path(dir, revision), |file| fill(file, revision, tables, stop))?;
    if let Err(error) = remove_before(dir, revision) {
        // They are harmless, and the next snapshot retries.
        tracing::warn!(%error, "cannot remove files replaced by a snapshot");
    }
    Ok(())
}

fn fill(
    file: &mut DiskFile,
    revision: u64,
    tables: &[(Arc<str>, Pin)],
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    write_frame(file, &mut buffer, &Payload::Snapshot { revision })?;
    let mut count = 0;
    for (table, pin) in tables {
        begin_records(&mut buffer);
        pin.for_each(|record| {
            put_record(&mut buffer, table, record);
            count += 1;
            if buffer.len() < FRAME {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("the store is closing"));
            }
            finish_frame(file, &mut buffer)?;
            begin_records(&mut buffer);
            Ok(())
        })?;
        finish_frame(file, &mut buffer)?;
    }
    write_frame(file, &mut buffer, &Payload::End { count })?;
    Ok(())
}

fn begin_records(buffer: &mut Vec<u8>) {
    frame::begin(buffer);
    put_payload(buffer, &Payload::Records);
}
