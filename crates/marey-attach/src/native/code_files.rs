//! Files of machine code, and the functions at addresses that a process recorded.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ReadCache};

use super::symbols::demangle;

/// Files of machine code, each opened when it is first asked for.
#[derive(Default)]
pub struct CodeFiles(RefCell<HashMap<PathBuf, Option<CodeFile>>>);

struct CodeFile {
    /// Hexadecimal; empty if the file has none.
    build_id: String,
    loader: Loader,
}

impl CodeFiles {
    /// Returns the functions at an address of a file, the outermost first: several if some are
    /// inlined. With debug information each is `FILE(LINE): NAME`, otherwise the name of the symbol.
    /// None if the file has neither, or not the build id that begins with these digits. A file
    /// without a build id may be another one than it was, so its functions are not known.
    pub fn functions_at(&self, path: &Path, build_id: &str, address: u64) -> Vec<String> {
        let mut files = self.0.borrow_mut();
        let file = files.entry(path.to_owned()).or_insert_with(|| CodeFile::open(path));
        let is_same =
            |file: &&CodeFile| !build_id.is_empty() && file.build_id.starts_with(build_id);
        file.as_ref().filter(is_same).map_or_else(Vec::new, |file| file.functions_at(address))
    }
}

impl CodeFile {
    fn open(path: &Path) -> Option<Self> {
        // Opening a pipe would wait for its writer. The loader opens the second file if it exists.
        let mut package = path.to_owned().into_os_string();
        package.push(".dwp");
        let is_file = |path: &Path| fs::metadata(path).map(|metadata| metadata.is_file());
        if !is_file(path).ok()? || is_file(Path::new(&package)).is_ok_and(|is_file| !is_file) {
            return None;
        }
        let cache = ReadCache::new(fs::File::open(path).ok()?);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let bytes = elf.build_id().ok()?.unwrap_or_default();
        let build_id = bytes.iter().flat_map(|byte| hex_digits(*byte)).collect();
        Some(Self { build_id, loader: Loader::new(path).ok()? })
    }

    fn functions_at(&self, address: u64) -> Vec<String> {
        let symbol = self.loader.find_symbol(address).map(demangle);
        let mut functions = Vec::new();
        if let Ok(mut frames) = self.loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.and_then(|name| Some(demangle(&name.raw_name().ok()?)));
                let line =
                    frame.location.and_then(|location| Some((location.file?, location.line?)));
                functions.push((name, line));
            }
        }
        // The outermost function is no inlined one. Its symbol has the namespace, which debug
        // information leaves out of static functions.
        match functions.last_mut() {
            Some((name, _)) => *name = symbol.or_else(|| name.take()),
            None => functions.push((symbol, None)),
        }
        let function = |(name, line): (Option<String>, _)| match line {
            Some((file, line)) => Some(format!("{file}({line}): {}", name?)),
            None => name,
        };
        functions.into_iter().rev().filter_map(function).collect()
    }
}

fn hex_digits(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 0xf].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('?'))
}

impl fmt::Debug for CodeFiles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("CodeFiles").field(&self.0.borrow().keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::mapped_files;

    #[inline(never)]
    fn marked() -> u64 {
        marked as *const () as u64
    }

    #[test]
    fn a_function_of_this_program_has_its_file_and_line() {
        let path = std::env::current_exe().unwrap();
        let loaded = mapped_files(std::process::id());
        let start = loaded.iter().find(|file| file.path == path).unwrap().start;
        let files = CodeFiles::default();
        let build_id = CodeFile::open(&path).unwrap().build_id;
        let functions = files.functions_at(&path, &build_id, marked() - start);
        let function = functions.last().unwrap();
        let name = function.split_once("code_files.rs(").unwrap().1;
        assert!(name.contains("): ") && name.contains("marked"), "{function}");
        assert!(files.functions_at(&path, "0123456789", marked() - start).is_empty());
    }

    #[test]
    fn what_is_no_program_has_no_functions() {
        let files = CodeFiles::default();
        for path in ["/dev/null", "/etc/passwd", "/no/such/file", "linux-vdso.so.1"] {
            assert!(files.functions_at(Path::new(path), "", 0x10).is_empty());
        }
    }
}
