//! The memory and the mapped files of a process.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{Endianness, Object, ObjectSegment, ObjectSymbol, ReadCache};

/// The memory of a process, read from outside.
pub(crate) struct Memory(File);

impl Memory {
    /// Opens the memory of a process; `None` without the rights to debug it.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        File::open(format!("/proc/{pid}/mem")).ok().map(Self)
    }

    /// Reads bytes from an address.
    pub(crate) fn read<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    /// Reads up to `length` bytes, fewer if the memory ends before.
    pub(crate) fn read_up_to(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = self.0.read_at(&mut bytes, address).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    /// Reads a word, such as a pointer.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        self.read(address).map(u64::from_ne_bytes)
    }
}

/// A file of machine code that a process has mapped.
pub(crate) struct Mapped {
    /// Path as the process has it.
    pub(crate) path: PathBuf,
    /// First address of the file.
    pub(crate) start: u64,
    /// Address after the last one of the file.
    pub(crate) end: u64,
    pid: u32,
}

impl Mapped {
    /// Opens the file, also in a container and after it was replaced on disk.
    pub(crate) fn open(&self) -> Option<File> {
        let root = format!("/proc/{}/root{}", self.pid, self.path.display());
        File::open(root).ok()
    }
}

/// Returns the files of machine code that a process has mapped, by their addresses.
pub(crate) fn mapped_files(pid: u32) -> Vec<Mapped> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut files: Vec<(Mapped, bool)> = Vec::new();
    for line in maps.lines() {
        let Some((start, end, mode, path)) = parse_map(line) else { continue };
        let is_code = mode.contains('x');
        match files.last_mut() {
            Some((file, has_code)) if file.path == path => {
                file.end = end;
                *has_code |= is_code;
            }
            _ => files.push((Mapped { path, start, end, pid }, is_code)),
        }
    }
    files.into_iter().filter(|(_, has_code)| *has_code).map(|(file, _)| file).collect()
}

/// Parses a line of `/proc/PID/maps`: `start-end mode offset device inode path`.
fn parse_map(line: &str) -> Option<(u64, u64, &str, PathBuf)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let mode = words.next()?;
    let path = words.nth(3)?.trim_start();
    let address = |digits| u64::from_str_radix(digits, 16).ok();
    path.starts_with('/').then_some(())?;
    Some((address(start)?, address(end)?, mode, path.into()))
}

/// Returns the address of a variable that a mapped file exports.
pub(crate) fn exported_address(file: &Mapped, name: &str) -> Option<u64> {
    let cache = ReadCache::new(file.open()?);
    let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(&cache).ok()?;
    let symbol =
        elf.dynamic_symbols().find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
    Some(bias(file, &elf)?.wrapping_add(symbol.address()))
}

/// Returns what to add to an address in a file for its address in the process.
pub(crate) fn bias<'data>(file: &Mapped, elf: &impl Object<'data>) -> Option<u64> {
    let lowest = elf.segments().map(|segment| segment.address()).min()?;
    // Segments begin at pages.
    Some(file.start.wrapping_sub(lowest & !0xfff))
}
