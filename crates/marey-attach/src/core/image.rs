//! Parses an ELF core file: the memory of a process, its threads, and the files that it had mapped.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::elf::{
    ET_CORE, FileHeader64, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, PF_W, PF_X, PT_LOAD, ProgramFlags,
    ProgramHeader64,
};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};

use crate::memory::{FileMapping, MappedFile, loaded_files};
use crate::object::ReadMemory;

/// The contents of a core file.
pub(super) struct CoreImage {
    file: File,
    segments: Vec<Segment>,
    mappings: Vec<CoreFileMapping>,
    /// Threads. The first one is the thread that received the signal.
    pub(super) threads: Vec<CoreThread>,
    /// Id of the process.
    pub(super) pid: u32,
    /// Command line of the process, which the kernel has truncated.
    pub(super) command: String,
}

/// A range of addresses, whose contents are in the core file or were left out.
struct Segment {
    start_address: u64,
    /// Number of bytes in the core file. The rest of the segment was left out.
    file_bytes: u64,
    /// Number of bytes in the memory of the process.
    memory_bytes: u64,
    file_offset: u64,
    /// Whether the process could execute the segment or write to it.
    is_code_or_variables: bool,
}

/// A part of a file that was mapped. The core file may lack its contents.
struct CoreFileMapping {
    start: u64,
    end: u64,
    offset: u64,
    path: PathBuf,
    /// The file as it is now. It is opened when it is first read, because the process may have
    /// mapped more files than this program may open.
    file: OnceCell<Option<File>>,
}

/// The state of a thread when the core was written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CoreThread {
    /// Id in the operating system.
    pub(super) os_id: u64,
    /// Signal that ended the process; 0 for none.
    pub(super) signal: i32,
    /// Number and first argument of the system call in progress.
    pub(super) system_call: Option<(i64, u64)>,
}

impl CoreImage {
    /// Reads the headers of a core file. `executable` replaces the path of the program in it.
    pub(super) fn open(path: &Path, executable: Option<&Path>) -> io::Result<Self> {
        let cache = ReadCache::new(File::open(path)?);
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let header = FileHeader64::<Endianness>::parse(&cache).map_err(invalid)?;
        let endian = header.endian().map_err(invalid)?;
        if header.e_type.get(endian) != ET_CORE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a core file"));
        }
        let mut image = Self {
            file: File::open(path)?,
            segments: Vec::new(),
            mappings: Vec::new(),
            threads: Vec::new(),
            pid: 0,
            command: String::new(),
        };
        for segment in header.program_headers(endian, &cache).map_err(invalid)? {
            if segment.p_type(endian) == PT_LOAD {
                image.segments.push(Segment {
                    start_address: segment.p_vaddr(endian),
                    file_bytes: segment.p_filesz(endian).min(segment.p_memsz(endian)),
                    memory_bytes: segment.p_memsz(endian),
                    file_offset: segment.p_offset(endian),
                    is_code_or_variables: (segment.p_flags(endian) & (PF_W | PF_X))
                        != ProgramFlags(0),
                });
            }
            image.read_notes(segment, endian, &cache).map_err(invalid)?;
        }
        image.segments.sort_by_key(|segment| segment.start_address);
        if let Some(executable) = executable {
            image.replace_program(executable);
        }
        Ok(image)
    }

    /// Reads the notes of a segment: threads, the process, and mapped files.
    fn read_notes(
        &mut self,
        segment: &ProgramHeader64<Endianness>,
        endian: Endianness,
        cache: &ReadCache<File>,
    ) -> object::Result<()> {
        let Some(mut notes) = segment.notes(endian, cache)? else { return Ok(()) };
        while let Some(note) = notes.next()? {
            let description = note.desc();
            match note.n_type(endian) {
                NT_PRSTATUS => self.threads.extend(CoreThread::parse(description)),
                NT_PRPSINFO => self.read_process_info(description),
                NT_FILE => self.mappings = file_mappings(description).unwrap_or_default(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a `struct elf_prpsinfo`.
    fn read_process_info(&mut self, description: &[u8]) {
        const PID_OFFSET: usize = 24;
        const ARGUMENTS_OFFSET: usize = 56;
        self.pid = bytes_at(description, PID_OFFSET).map_or(0, u32::from_ne_bytes);
        let arguments = description.get(ARGUMENTS_OFFSET..).unwrap_or_default();
        let arguments = arguments.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(arguments).trim_end().clone_into(&mut self.command);
    }

    /// Replaces the path of the program, which is the first of the files that were mapped.
    fn replace_program(&mut self, executable: &Path) {
        let Some(program) = self.mappings.first().map(|mapping| mapping.path.clone()) else {
            return;
        };
        for mapping in self.mappings.iter_mut().filter(|mapping| mapping.path == program) {
            executable.clone_into(&mut mapping.path);
        }
    }

    /// Returns the program and the libraries that were loaded, in the order of their addresses.
    pub(super) fn loaded_files(&self) -> Vec<MappedFile> {
        let mappings = self.mappings.iter().map(|mapping| FileMapping {
            start: mapping.start,
            end: mapping.end,
            offset: mapping.offset,
            path: mapping.path.clone(),
            // A file with neither is data. Debuggers leave machine code out of core files, but not
            // variables, so either of them shows a loaded file.
            is_loaded: self
                .segment(mapping.start)
                .is_some_and(|segment| segment.is_code_or_variables),
        });
        loaded_files(mappings, "")
    }

    /// Returns the segment that contains an address.
    fn segment(&self, address: u64) -> Option<&Segment> {
        let next_index = self.segments.partition_point(|segment| segment.start_address <= address);
        let segment = self.segments.get(next_index.checked_sub(1)?)?;
        (address - segment.start_address < segment.memory_bytes).then_some(segment)
    }

    /// Reads bytes from the core file itself. Returns how many it has, `None` for none.
    fn read_segment(&self, address: u64, bytes: &mut [u8]) -> Option<usize> {
        let segment = self.segment(address)?;
        let segment_offset = address - segment.start_address;
        let bytes_left =
            segment.file_bytes.checked_sub(segment_offset).filter(|&bytes_left| bytes_left > 0)?;
        let length = bytes.len().min(usize::try_from(bytes_left).ok()?);
        self.file
            .read_exact_at(&mut bytes[..length], segment.file_offset.checked_add(segment_offset)?)
            .ok()?;
        Some(length)
    }

    /// Reads bytes from the file that was mapped there. Returns how many it has, `None` for none.
    fn read_file(&self, address: u64, bytes: &mut [u8]) -> Option<usize> {
        let mapping =
            self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        let length = bytes.len().min(usize::try_from(mapping.end - address).ok()?);
        let offset = mapping.offset.checked_add(address - mapping.start)?;
        mapping.file()?.read_exact_at(&mut bytes[..length], offset).ok()?;
        Some(length)
    }
}

impl CoreFileMapping {
    fn file(&self) -> Option<&File> {
        // Checked first, because the opening of a pipe would wait for a writer.
        let is_file = || fs::metadata(&self.path).is_ok_and(|metadata| metadata.is_file());
        let open = || is_file().then(|| File::open(&self.path).ok()).flatten();
        self.file.get_or_init(open).as_ref()
    }
}

impl ReadMemory for CoreImage {
    fn read_into(&self, mut address: u64, mut bytes: &mut [u8]) -> Option<()> {
        while !bytes.is_empty() {
            let length =
                self.read_segment(address, bytes).or_else(|| self.read_file(address, bytes))?;
            address = address.checked_add(length as u64)?;
            bytes = &mut bytes[length..];
        }
        Some(())
    }
}

impl CoreThread {
    /// Parses a `struct elf_prstatus`.
    fn parse(description: &[u8]) -> Option<Self> {
        const SIGNAL_OFFSET: usize = 12;
        const THREAD_ID_OFFSET: usize = 32;
        let signal = u16::from_ne_bytes(bytes_at(description, SIGNAL_OFFSET)?);
        let os_id = u32::from_ne_bytes(bytes_at(description, THREAD_ID_OFFSET)?);
        Some(Self {
            os_id: os_id.into(),
            signal: signal.into(),
            system_call: system_call(description),
        })
    }
}

/// Returns the number and the first argument of the system call that a thread is in. On x86-64 a
/// register of its own keeps the number.
#[cfg(target_arch = "x86_64")]
fn system_call(description: &[u8]) -> Option<(i64, u64)> {
    const FIRST_ARGUMENT_OFFSET: usize = 112 + 14 * 8;
    const CALL_NUMBER_OFFSET: usize = 112 + 15 * 8;
    let call_number = i64::from_ne_bytes(bytes_at(description, CALL_NUMBER_OFFSET)?);
    let first_argument = u64::from_ne_bytes(bytes_at(description, FIRST_ARGUMENT_OFFSET)?);
    (call_number >= 0).then_some((call_number, first_argument))
}

#[cfg(not(target_arch = "x86_64"))]
fn system_call(_: &[u8]) -> Option<(i64, u64)> {
    None
}

/// Parses a note of mapped files (`NT_FILE`). It has the number of files and the size of a page,
/// then the addresses and the offset in pages of each file, then the paths.
fn file_mappings(description: &[u8]) -> Option<Vec<CoreFileMapping>> {
    const HEAD_BYTES: usize = 16;
    const ENTRY_BYTES: usize = 24;
    let word_at = |note: &[u8], offset| bytes_at(note, offset).map(u64::from_ne_bytes);
    let count = word_at(description, 0)?;
    let page_bytes = word_at(description, 8)?;
    let entries = description.get(HEAD_BYTES..)?;
    let (entries, paths) =
        entries.split_at_checked(usize::try_from(count).ok()?.checked_mul(ENTRY_BYTES)?)?;
    let paths = paths.split(|&byte| byte == 0);
    let mappings = entries.chunks_exact(ENTRY_BYTES).zip(paths).filter_map(|(entry, path)| {
        Some(CoreFileMapping {
            start: word_at(entry, 0)?,
            end: word_at(entry, 8)?,
            offset: word_at(entry, 16)?.checked_mul(page_bytes)?,
            path: OsString::from_vec(path.to_vec()).into(),
            file: OnceCell::new(),
        })
    });
    Some(mappings.collect())
}

/// Returns the bytes of a number in a note.
fn bytes_at<const N: usize>(note: &[u8], offset: usize) -> Option<[u8; N]> {
    note.get(offset..)?.first_chunk().copied()
}
