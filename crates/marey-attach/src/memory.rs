//! Reads the memory of another process, its mapped files, and the addresses of symbols in them.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use object::elf::gnu_hash;
use object::read::elf::{ElfFile64, Sym, VersionTable};
use object::{Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache};

use crate::object::ReadMemory;

/// The memory of a process, read from outside.
pub(crate) struct ProcessMemory(File);

impl ProcessMemory {
    /// Opens the memory of a process. Returns `None` without the right to debug it.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        File::open(format!("/proc/{pid}/mem")).ok().map(Self)
    }

    /// Reads bytes from an address.
    pub(crate) fn read<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read_into(address, &mut bytes)?;
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

impl ReadMemory for ProcessMemory {
    fn read_into(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.0.read_exact_at(buffer, address).ok()
    }
}

/// A file of machine code that a process has mapped.
#[derive(Clone, Debug)]
pub struct MappedFile {
    /// Path as the process sees it.
    pub path: PathBuf,
    /// First address of the mapping.
    pub(crate) start: u64,
    /// Address after the end of the mapping.
    pub(crate) end: u64,
    /// Position in the file of the first mapped byte.
    pub(crate) offset: u64,
    /// Path of the root folder of the process, which may be in a container.
    pub(crate) root: String,
}

impl MappedFile {
    /// Returns the name of the file without its folder.
    pub fn name(&self) -> Cow<'_, str> {
        self.path.file_name().unwrap_or_default().to_string_lossy()
    }

    /// Whether the file has the name of a Python interpreter, or of `libpython`.
    pub(crate) fn is_python(&self) -> bool {
        let name = self.name();
        name.starts_with("python") || name.starts_with("libpython")
    }

    /// Opens the file, also one in a container. Fails if it was deleted or replaced, or is not a
    /// regular file.
    pub fn open(&self) -> io::Result<File> {
        let path = format!("{}{}", self.root, self.path.display());
        // Checked first, because the opening of a pipe would wait for a writer.
        if fs::metadata(&path)?.is_file() {
            File::open(path)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
        }
    }
}

/// A part of a file that a process has mapped.
#[derive(Debug)]
pub(crate) struct FileMapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) path: PathBuf,
    /// Whether this part shows that the file was loaded as a program or library, and not only
    /// mapped as data.
    pub(crate) is_loaded: bool,
}

/// Returns the files that were loaded. `mappings` are parts of files in the order of their
/// addresses, and `root` is the path of the root folder of the process.
pub(crate) fn loaded_files(
    mappings: impl IntoIterator<Item = FileMapping>,
    root: &str,
) -> Vec<MappedFile> {
    let mut files: Vec<(MappedFile, bool)> = Vec::new();
    let mut last_offset = 0;
    for FileMapping { start, end, offset, path, is_loaded } in mappings {
        match files.last_mut() {
            // An offset that does not grow begins another mapping of the same file.
            Some((file, is_file_loaded)) if file.path == path && offset > last_offset => {
                file.end = end;
                *is_file_loaded |= is_loaded;
            }
            _ => {
                files.push((
                    MappedFile { path, start, end, offset, root: root.to_owned() },
                    is_loaded,
                ));
            }
        }
        last_offset = offset;
    }
    files.into_iter().filter(|(_, is_loaded)| *is_loaded).map(|(file, _)| file).collect()
}

/// Returns the files of machine code that a process has mapped, in the order of their addresses.
pub fn mapped_files(pid: u32) -> Vec<MappedFile> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mappings = maps.lines().filter_map(|line| {
        let MapsLine { start, end, mode, offset, path } = MapsLine::parse(line)?;
        let path = path.starts_with('/').then(|| path.into())?;
        Some(FileMapping { start, end, offset, path, is_loaded: mode.contains('x') })
    });
    loaded_files(mappings, &format!("/proc/{pid}/root"))
}

/// A range of addresses: the first one, and the one after the last.
pub type AddressRange = (u64, u64);

/// Returns the mapped memory of a process in ascending order.
pub(crate) fn mapped_memory(pid: u32) -> io::Result<Vec<AddressRange>> {
    ranges_with_mode(pid, |_| true)
}

/// Returns the writable memory of a process in ascending order.
pub fn writable_memory(pid: u32) -> io::Result<Vec<AddressRange>> {
    ranges_with_mode(pid, |mode| mode.starts_with("rw"))
}

fn ranges_with_mode(pid: u32, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<AddressRange>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let lines = maps.lines().filter_map(MapsLine::parse);
    let wanted = lines.filter(|line| is_wanted(line.mode));
    Ok(wanted.map(|line| (line.start, line.end)).collect())
}

/// A line of `/proc/PID/maps`.
struct MapsLine<'a> {
    start: u64,
    end: u64,
    mode: &'a str,
    offset: u64,
    /// Path of a file, a name in brackets such as `[heap]`, or nothing.
    path: &'a str,
}

impl<'a> MapsLine<'a> {
    /// Parses a line: `start-end mode offset device inode path`.
    fn parse(line: &'a str) -> Option<Self> {
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let (mode, offset) = (words.next()?, words.next()?);
        let path = words.nth(2).unwrap_or_default().trim_start();
        Some(Self { start: number(start)?, end: number(end)?, mode, offset: number(offset)?, path })
    }
}

/// Returns the address of a variable that a mapped file exports.
pub(crate) fn exported_address(file: &MappedFile, name: &str) -> Option<u64> {
    let cache = ReadCache::new(file.open().ok()?);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let sections = elf.elf_section_table();
    let address = if let Some((table, _)) = sections.gnu_hash(elf.endian(), elf.data()).ok()? {
        // The hash table avoids a comparison of thousands of names, each of which reads the file.
        let (hash, any_version) = (gnu_hash(name.as_bytes()), VersionTable::default());
        let symbols = elf.elf_dynamic_symbol_table();
        let found = table.find(elf.endian(), name.as_bytes(), hash, None, symbols, &any_version);
        found?.1.st_value(elf.endian())
    } else {
        let mut symbols = elf.dynamic_symbols();
        symbols.find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?.address()
    };
    Some(load_bias(file, &elf)?.wrapping_add(address))
}

/// Returns the address of a section of a mapped file.
pub(crate) fn section_address(file: &MappedFile, name: &str) -> Option<u64> {
    let cache = ReadCache::new(file.open().ok()?);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let section = elf.section_by_name(name)?;
    Some(load_bias(file, &elf)?.wrapping_add(section.address()))
}

/// Returns the load bias of a mapped file: the number to add to an address in the file to get its
/// address in the process.
pub fn load_bias<'data>(file: &MappedFile, elf: &impl Object<'data>) -> Option<u64> {
    elf.segments().find_map(|segment| {
        let (offset, length) = segment.file_range();
        // Files are mapped in whole pages.
        let first_page = offset & !0xfff;
        (first_page..offset.saturating_add(length)).contains(&file.offset).then(|| {
            let address = segment.address().wrapping_sub(offset).wrapping_add(file.offset);
            file.start.wrapping_sub(address)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_the_own_process_is_found() {
        let files = mapped_files(std::process::id());
        let found = files.iter().find_map(|file| exported_address(file, "environ")).unwrap();
        let memory = ProcessMemory::open(std::process::id()).unwrap();
        let first = memory.word(memory.word(found).unwrap()).unwrap();
        assert!(memory.read_up_to(first, 64).contains(&b'='));
    }

    #[test]
    fn a_line_has_a_file_a_name_or_neither() {
        let line = "7f00-7f10 r-xp 00002000 fe:00 10635702                   /lib/a b.so";
        let mapping = MapsLine::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f00, 0x7f10, 0x2000));
        assert_eq!((mapping.mode, mapping.path), ("r-xp", "/lib/a b.so"));
        let path = |line| MapsLine::parse(line).unwrap().path;
        assert_eq!(path("7f00-7f10 rw-p 00000000 00:00 0 "), "");
        assert_eq!(path("7f00-7f10 rw-p 00000000 00:00 0          [heap]"), "[heap]");
        assert!(MapsLine::parse("7f00 rw-p").is_none());
    }

    #[test]
    fn a_file_is_known_by_its_loaded_parts() {
        let part = |start, offset, path: &str, is_loaded| FileMapping {
            start,
            end: start + 0x1000,
            offset,
            path: path.into(),
            is_loaded,
        };
        let files = loaded_files(
            [
                part(0x1000, 0, "a", false),
                part(0x2000, 0, "a", false),
                part(0x3000, 0x1000, "a", true),
                part(0x4000, 0x1000, "a", false),
                part(0x6000, 0, "b", true),
            ],
            "",
        );
        let places: Vec<_> = files.iter().map(|file| (file.name(), file.start, file.end)).collect();
        assert_eq!(places, [("a".into(), 0x2000, 0x4000), ("b".into(), 0x6000, 0x7000)]);
    }
}
