//! Finds symbols and unused memory in the program and the libraries that a process has loaded.

use std::fs::File;
use std::io;

use marey_attach::{AddressRange, MappedFile, load_bias};
use object::elf::{PF_W, PT_LOAD, ProgramFlags};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _, ReadCache};

/// The smallest size of a page. The bytes from the end of a segment to the next multiple are
/// unused.
const PAGE_BYTES: u64 = 4096;

type Elf<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// Returns the addresses of symbols in the order of `names`, `None` for those that the program or
/// library does not define.
pub(crate) fn symbols<const N: usize>(
    image: &MappedFile,
    names: [&str; N],
) -> io::Result<[Option<u64>; N]> {
    let mut addresses = [None; N];
    let cache = ReadCache::new(image.open()?);
    let file = parse(&cache)?;
    let load_bias = known_load_bias(image, &file)?;
    for symbol in file.dynamic_symbols().chain(file.symbols()) {
        let Ok(name) = symbol.name_bytes() else { continue };
        let wanted = names.iter().position(|wanted| wanted.as_bytes() == name);
        if let Some(index) = wanted.filter(|_| symbol.is_definition()) {
            addresses[index].get_or_insert(symbol.address().wrapping_add(load_bias));
            if addresses.iter().all(Option::is_some) {
                break;
            }
        }
    }
    Ok(addresses)
}

/// Returns the range of addresses between the end of the writable segments and the end of their
/// page. No variable is there.
pub(crate) fn unused_range(image: &MappedFile) -> io::Result<Option<AddressRange>> {
    let cache = ReadCache::new(image.open()?);
    let file = parse(&cache)?;
    let endian = file.endian();
    let writable = file.elf_program_headers().iter().filter(|header| {
        header.p_type(endian) == PT_LOAD && header.p_flags(endian) & PF_W != ProgramFlags(0)
    });
    let ends = writable.map(|header| header.p_vaddr(endian).wrapping_add(header.p_memsz(endian)));
    let load_bias = known_load_bias(image, &file)?;
    Ok(ends.max().and_then(|end| {
        let end = end.wrapping_add(load_bias);
        Some((end, end.checked_next_multiple_of(PAGE_BYTES)?))
    }))
}

/// Returns the load bias: the difference between an address in the process and in the file.
fn known_load_bias(image: &MappedFile, file: &Elf<'_>) -> io::Result<u64> {
    let unknown = || io::Error::other("it was replaced since the process has loaded it");
    load_bias(image, file).ok_or_else(unknown)
}

fn parse(cache: &ReadCache<File>) -> io::Result<Elf<'_>> {
    ElfFile64::<Endianness, _>::parse(cache).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use marey_attach::mapped_files;

    use super::*;

    /// A program that maps its own file as data at a lower address, and prints the address of a
    /// variable.
    const PROGRAM: &str = r#"
        #include <fcntl.h>
        #include <stdio.h>
        #include <sys/mman.h>
        int marker;
        int main(void) {
            int file = open("/proc/self/exe", O_RDONLY);
            mmap((void *)0x100000, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
            printf("%p\n", (void *)&marker);
            fflush(stdout);
            getchar();
            return 0;
        }
    "#;

    #[test]
    fn the_addresses_of_symbols_are_right_wherever_a_program_is_linked_and_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let (source, path) = (folder.path().join("program.c"), folder.path().join("program"));
        fs::write(&source, PROGRAM).unwrap();
        for options in [
            &["-no-pie"][..],
            &["-pie", "-fPIE"],
            &["-no-pie", "-Wl,-Ttext-segment=0x10000000"],
            &["-pie", "-fPIE", "-Wl,-Ttext-segment=0x10000000"],
        ] {
            let mut compiler = Command::new("cc");
            compiler.args(options).arg("-o").args([&path, &source]);
            assert!(compiler.status().unwrap().success());
            let mut command = Command::new(&path);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let address = u64::from_str_radix(line.trim().trim_start_matches("0x"), 16).unwrap();
            let images = mapped_files(child.id());
            let image = images.iter().find(|image| image.path == path).unwrap();
            assert_eq!(symbols(image, ["marker"]).unwrap(), [Some(address)], "{options:?}");
            drop(child.stdin.take());
            assert!(child.wait().unwrap().success());
        }
    }
}
