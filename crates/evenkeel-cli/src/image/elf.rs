//! Reads of an executable what an image must state: its architecture, and that it needs no libraries.

use anyhow::{Context as _, bail};

/// What the header of an executable states.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Executable {
    /// In the spelling of container images.
    pub(super) architecture: &'static str,
    /// Whether it runs without a dynamic linker.
    pub(super) is_static: bool,
}

/// The type of the program header that names the dynamic linker.
const PT_INTERP: u32 = 3;

/// Reads the header of a 64-bit little-endian ELF file.
///
/// # Errors
/// If it is another kind of file.
pub(super) fn inspect(bytes: &[u8]) -> anyhow::Result<Executable> {
    if bytes.get(..6) != Some(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        bail!("not a 64-bit little-endian ELF executable; the image runs on Linux");
    }
    let architecture = match u16_at(bytes, 18)? {
        62 => "amd64",
        183 => "arm64",
        243 => "riscv64",
        other => bail!("unknown machine type {other}"),
    };
    let table = usize::try_from(u64_at(bytes, 32)?)?;
    let size = usize::from(u16_at(bytes, 54)?);
    let count = usize::from(u16_at(bytes, 56)?);
    let mut is_static = true;
    for index in 0..count {
        let offset = index.checked_mul(size).and_then(|it| it.checked_add(table));
        let offset = offset.context("invalid program header table")?;
        is_static &= u32_at(bytes, offset)? != PT_INTERP;
    }
    Ok(Executable { architecture, is_static })
}

fn array<const N: usize>(bytes: &[u8], offset: usize) -> anyhow::Result<[u8; N]> {
    let found = offset.checked_add(N).and_then(|end| bytes.get(offset..end));
    found.and_then(|it| it.try_into().ok()).context("the file is truncated")
}

fn u16_at(bytes: &[u8], offset: usize) -> anyhow::Result<u16> {
    Ok(u16::from_le_bytes(array(bytes, offset)?))
}

fn u32_at(bytes: &[u8], offset: usize) -> anyhow::Result<u32> {
    Ok(u32::from_le_bytes(array(bytes, offset)?))
}

fn u64_at(bytes: &[u8], offset: usize) -> anyhow::Result<u64> {
    Ok(u64::from_le_bytes(array(bytes, offset)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a header with program headers of these types.
    fn header(machine: u16, types: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&(types.len() as u16).to_le_bytes());
        for ty in types {
            let mut program = [0; 56];
            program[..4].copy_from_slice(&ty.to_le_bytes());
            bytes.extend(program);
        }
        bytes
    }

    #[test]
    fn dynamic_executables_and_other_files_are_recognized() {
        let found = |bytes: &[u8]| inspect(bytes).unwrap();
        assert_eq!(
            found(&header(62, &[1, 2])),
            Executable { architecture: "amd64", is_static: true }
        );
        assert_eq!(
            found(&header(183, &[6, PT_INTERP])),
            Executable { architecture: "arm64", is_static: false }
        );
        let mut truncated = header(62, &[1, 1]);
        truncated.truncate(100);
        for bad in [&b"#!/bin/sh"[..], &header(3, &[]), &truncated, &[]] {
            assert!(inspect(bad).is_err());
        }
    }
}
