//! Writes tar archives with reproducible content: no times, no owners.

/// An archive in the ustar format.
#[derive(Default)]
pub(super) struct Archive(Vec<u8>);

impl Archive {
    /// Adds a file. Names are at most 100 bytes long.
    pub(super) fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.0.extend(header(name, mode, content.len()));
        self.0.extend(content);
        let padding = content.len().next_multiple_of(512) - content.len();
        self.0.resize(self.0.len() + padding, 0);
    }

    /// Returns the bytes of the archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        // Two empty blocks mark the end.
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

fn header(name: &str, mode: u32, size: usize) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |offset: usize, text: &str| {
        header[offset..offset + text.len()].copy_from_slice(text.as_bytes());
    };
    put(0, &name[..name.len().min(100)]);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, "00000000000");
    // The checksum counts its own field as spaces.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}
