//! Frames with checksums.
//!
//! ```text
//! magic u32 | length u32 | crc32c of payload u32 | crc32c of the 12 bytes before u32 | payload
//! ```
//!
//! Integers are little-endian. The header has its own checksum, so a corrupt length is never used.

use std::io::{self, Read};

const MAGIC: u32 = u32::from_le_bytes(*b"\xE5EK\x01");
const HEADER: usize = 16;

/// The next item in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A valid frame, which began at this offset.
    Frame(u64),
    /// The end of the file, after a frame.
    End,
    /// Not a valid frame, at this offset.
    Broken(u64),
}

/// A reader of the frames of a file.
pub(super) struct Frames<R> {
    input: R,
    offset: u64,
    end: u64,
}

impl<R: Read> Frames<R> {
    /// Creates a reader of `input`, which is `end` bytes long.
    pub(super) fn new(input: R, end: u64) -> Self {
        Self { input, offset: 0, end }
    }

    /// Reads the next frame's payload. Must not be called again after `End` or `Broken`.
    pub(super) fn next(&mut self, payload: &mut Vec<u8>) -> io::Result<Next> {
        let start = self.offset;
        let left = self.end - start;
        if left == 0 {
            return Ok(Next::End);
        }
        if left < HEADER as u64 {
            return Ok(Next::Broken(start));
        }
        let mut header = [0; HEADER];
        self.input.read_exact(&mut header)?;
        let Some((length, crc)) = parse_header(&header) else { return Ok(Next::Broken(start)) };
        if u64::from(length) > left - HEADER as u64 {
            return Ok(Next::Broken(start));
        }
        payload.resize(length as usize, 0);
        self.input.read_exact(payload)?;
        if crc32c(payload) != crc {
            return Ok(Next::Broken(start));
        }
        self.offset = start + HEADER as u64 + u64::from(length);
        Ok(Next::Frame(start))
    }
}

/// Reserves the frame header at the start of `buffer`; the payload is appended after it.
pub(super) fn begin(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.resize(HEADER, 0);
}

/// Completes the frame in `buffer` that [`begin`] started. Returns `false` if it is too long.
#[must_use]
pub(super) fn seal(buffer: &mut [u8]) -> bool {
    let (header, payload) = buffer.split_at_mut(HEADER);
    let Ok(length) = u32::try_from(payload.len()) else { return false };
    header[..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&length.to_le_bytes());
    header[8..12].copy_from_slice(&crc32c(payload).to_le_bytes());
    let crc = crc32c(&header[..12]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    true
}

/// Returns whether a valid frame begins anywhere in `bytes`.
pub(super) fn any_within(bytes: &[u8]) -> bool {
    bytes.windows(HEADER).enumerate().any(|(start, header)| {
        parse_header(header).is_some_and(|(length, crc)| {
            let payload = bytes[start + HEADER..].get(..length as usize);
            payload.is_some_and(|payload| crc32c(payload) == crc)
        })
    })
}

/// Returns the length and checksum of the payload, if this is a valid header.
fn parse_header(header: &[u8]) -> Option<(u32, u32)> {
    let word = |index: usize| {
        let bytes = header.get(4 * index..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let sound = word(0)? == MAGIC && word(3)? == crc32c(&header[..12]);
    if sound { Some((word(1)?, word(2)?)) } else { None }
}

/// Computes CRC-32C (Castagnoli), eight bytes at a time.
///
/// Twenty lines instead of a crate: those that are faster use the instruction of the processor and
/// `unsafe`, and the checksum takes a hundredth of the time of an fsync.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for &[a, b, c, d, e, f, g, h] in chunks {
        let low = u32::from_le_bytes([a, b, c, d]) ^ crc;
        let [a, b, c, d] = low.to_le_bytes();
        crc = TABLES[7][a as usize]
            ^ TABLES[6][b as usize]
            ^ TABLES[5][c as usize]
            ^ TABLES[4][d as usize]
            ^ TABLES[3][e as usize]
            ^ TABLES[2][f as usize]
            ^ TABLES[1][g as usize]
            ^ TABLES[0][h as usize];
    }
    for &byte in rest {
        crc = TABLES[0][(crc as u8 ^ byte) as usize] ^ (crc >> 8);
    }
    !crc
}

/// `TABLES[n][b]`: the checksum of byte `b` followed by `n` zero bytes.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut level = 1;
    while level < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[level - 1][byte];
            tables[level][byte] = tables[0][(before & 0xFF) as usize] ^ (before >> 8);
            byte += 1;
        }
        level += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut buffer = Vec::new();
        begin(&mut buffer);
        buffer.extend_from_slice(payload);
        assert!(seal(&mut buffer));
        buffer
    }

    fn read(file: &[u8]) -> (Vec<Vec<u8>>, Next) {
        let mut frames = Frames::new(file, file.len() as u64);
        let (mut all, mut payload) = (Vec::new(), Vec::new());
        loop {
            match frames.next(&mut payload).unwrap() {
                Next::Frame(_) => all.push(payload.clone()),
                other => return (all, other),
            }
        }
    }

    #[test]
    fn checksum_is_crc32c() {
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
    }

    #[test]
    fn frames_are_read_in_order() {
        let file = [frame(b"one"), frame(b""), frame(b"three")].concat();
        let expected = [b"one".to_vec(), vec![], b"three".to_vec()];
        assert_eq!(read(&file), (expected.to_vec(), Next::End));
    }

    #[test]
    fn any_flipped_bit_breaks_the_frame() {
        let (first, second) = (frame(b"first"), frame(b"second"));
        for bit in 0..8 * second.len() {
            let mut damaged = second.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let file = [first.clone(), damaged].concat();
            let offset = first.len() as u64;
            assert_eq!(read(&file), (vec![b"first".to_vec()], Next::Broken(offset)), "bit {bit}");
        }
    }

    #[test]
    fn valid_frame_is_found_after_garbage() {
        let file = [b"rubbish".to_vec(), frame(b"whole"), b"more".to_vec()].concat();
        assert!(any_within(&file));
        assert!(!any_within(&file[..file.len() - 5]));
        assert!(!any_within(&file[8..]));
    }
}
