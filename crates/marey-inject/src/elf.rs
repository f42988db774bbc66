//! The program and the libraries that a process has loaded.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use object::elf::{ET_EXEC, PF_W, PT_LOAD, ProgramFlags};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _, ReadCache};

use crate::target::outside;

/// The smallest page: the end of a segment is followed by unused bytes up to the next multiple.
const PAGE_BYTES: u64 = 4096;

type Elf<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// A program or library that a process has loaded.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// Its path, as the process sees it.
    pub(crate) path: PathBuf,
    /// Address of the first byte of the file.
    base: u64,
    pid: u32,
}

/// Addresses from the first to behind the last byte.
pub(crate) type Range = (u64, u64);

impl Image {
    /// Returns all images of a process, in the order of their addresses.
    pub(crate) fn all(pid: u32) -> io::Result<Vec<Self>> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let mut bases = BTreeMap::new();
        for line in maps.lines() {
            if let Some((base, path)) = first_page(line) {
                bases.entry(path).or_insert(base);
            }
        }
        let mut images: Vec<Self> = bases
            .into_iter()
            .map(|(path, base)| Self { path: PathBuf::from(path), base, pid })
            .collect();
        images.sort_by_key(|image| image.base);
        Ok(images)
    }

    /// Returns the name of the file.
    pub(crate) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Returns the addresses of symbols in the order of their names, `None` for those that the image
    /// does not define.
    pub(crate) fn symbols<const N: usize>(&self, names: [&str; N]) -> io::Result<[Option<u64>; N]> {
        let mut addresses = [None; N];
        let cache = self.open()?;
        let file = parse(&cache)?;
        let bias = self.bias(&file);
        for symbol in file.dynamic_symbols().chain(file.symbols()) {
            let Ok(name) = symbol.name_bytes() else { continue };
            let wanted = names.iter().position(|wanted| wanted.as_bytes() == name);
            if let Some(index) = wanted.filter(|_| symbol.is_definition()) {
                addresses[index].get_or_insert(symbol.address().wrapping_add(bias));
                if addresses.iter().all(Option::is_some) {
                    break;
                }
            }
        }
        Ok(addresses)
    }

    /// Returns the addresses between the end of the variables and the end of their page, which belong
    /// to nothing.
    pub(crate) fn unused(&self) -> io::Result<Option<Range>> {
        let cache = self.open()?;
        let file = parse(&cache)?;
        let endian = file.endian();
        let writable = file.elf_program_headers().iter().filter(|header| {
            header.p_type(endian) == PT_LOAD && header.p_flags(endian) & PF_W != ProgramFlags(0)
        });
        let ends = writable.map(|it| it.p_vaddr(endian).wrapping_add(it.p_memsz(endian)));
        Ok(ends.max().and_then(|end| {
            let end = end.wrapping_add(self.bias(&file));
            Some((end, end.checked_next_multiple_of(PAGE_BYTES)?))
        }))
    }

    fn open(&self) -> io::Result<ReadCache<File>> {
        File::open(outside(self.pid, &self.path)).map(ReadCache::new)
    }

    /// Returns the difference between an address in the process and the one in the file.
    fn bias(&self, file: &Elf<'_>) -> u64 {
        let endian = file.endian();
        if file.elf_header().e_type(endian) == ET_EXEC {
            return 0;
        }
        let loaded = file.elf_program_headers().iter();
        let first = loaded
            .filter(|header| header.p_type(endian) == PT_LOAD)
            .map(|it| it.p_vaddr(endian))
            .min();
        self.base.wrapping_sub(first.unwrap_or(0) / PAGE_BYTES * PAGE_BYTES)
    }
}

fn parse(cache: &ReadCache<File>) -> io::Result<Elf<'_>> {
    ElfFile64::<Endianness, _>::parse(cache).map_err(io::Error::other)
}

/// Returns the writable memory of a process.
pub(crate) fn writable(pid: u32) -> io::Result<Vec<Range>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let range = |line: &str| {
        let (addresses, rights) = line.split_once(' ')?;
        let (start, end) = addresses.split_once('-')?;
        let parse = |digits| u64::from_str_radix(digits, 16).ok();
        rights.starts_with("rw").then_some((parse(start)?, parse(end)?))
    };
    Ok(maps.lines().filter_map(range).collect())
}

/// Returns the address and the path of a line of `/proc/PID/maps` that shows the start of a file.
fn first_page(line: &str) -> Option<(u64, &str)> {
    let mut words = line.splitn(6, ' ');
    let (addresses, _rights, offset) = (words.next()?, words.next()?, words.next()?);
    let path = words.nth(2)?.trim_start();
    let is_file = path.starts_with('/') && u64::from_str_radix(offset, 16) == Ok(0);
    let base = u64::from_str_radix(addresses.split('-').next()?, 16).ok()?;
    is_file.then_some((base, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_page_of_a_file_is_an_image() {
        let line = "7f11aa00000-7f11aa5e000 r--p 00000000 fe:01 1181 \t\t/usr/lib/my python/lib.so";
        assert_eq!(first_page(line), Some((0x7f1_1aa0_0000, "/usr/lib/my python/lib.so")));
        for other in [
            "7f11aa00000-7f11aa5e000 r--p 00001000 fe:01 1181 /usr/lib/lib.so",
            "7ffd13c00000-7ffd13c21000 rw-p 00000000 00:00 0 [stack]",
            "7f11aa00000-7f11aa5e000 rw-p 00000000 00:00 0",
            "",
        ] {
            assert_eq!(first_page(other), None, "{other}");
        }
    }
}
