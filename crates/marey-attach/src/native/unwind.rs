//! Unwinds copies of native stacks by the unwind tables of the mapped files (`.eh_frame`), which
//! need no frame pointers.

use std::fs::File;

use framehop::{
    ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder,
};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ReadCache};

use crate::memory::{AddressRange, MappedFile, ProcessMemory, load_bias};
use crate::stop::Registers;

/// The maximum number of bytes that are copied of a stack.
const MAX_STACK_BYTES: usize = 1 << 19;
/// The maximum number of frames that are unwound of a stack.
const MAX_FRAMES: usize = 1_024;

type NativeUnwinder = framehop::UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>;
type NativeCache = framehop::CacheNative<MayAllocateDuringUnwind>;

/// A copy of the stack of a stopped thread.
pub(crate) struct StackCopy {
    registers: Registers,
    bytes: Vec<u8>,
}

impl StackCopy {
    /// Copies the stack of a stopped thread, from the stack pointer to the end of its mapping.
    pub(crate) fn read(
        memory: &ProcessMemory,
        ranges: &[AddressRange],
        registers: Registers,
    ) -> Self {
        let range_index = ranges.partition_point(|&(_, end)| end <= registers.stack_pointer);
        let end = ranges.get(range_index).map_or(registers.stack_pointer, |&(_, end)| end);
        let length = usize::try_from(end - registers.stack_pointer).unwrap_or(usize::MAX);
        let bytes = memory.read_up_to(registers.stack_pointer, length.min(MAX_STACK_BYTES));
        Self { registers, bytes }
    }

    /// Returns the words that may be code addresses.
    fn words(&self) -> impl Iterator<Item = u64> {
        let registers = [self.registers.instruction_pointer, self.registers.return_address];
        registers.into_iter().chain(self.bytes.chunks_exact(8).map(word))
    }

    fn word_at(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.registers.stack_pointer)?).ok()?;
        self.bytes.get(offset..offset.checked_add(8)?).map(word)
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map(u64::from_ne_bytes).unwrap_or_default()
}

/// Returns the code addresses of the frames of each stack, innermost first.
pub(crate) fn unwind(files: &[MappedFile], stacks: &[StackCopy]) -> Vec<Vec<u64>> {
    let mut unwinder = NativeUnwinder::new();
    for file in files.iter().filter(|file| is_on_stack(file, stacks)) {
        if let Some(module) = unwind_module(file) {
            unwinder.add_module(module);
        }
    }
    let mut cache = NativeCache::new();
    stacks.iter().map(|stack| unwind_stack(&unwinder, &mut cache, stack)).collect()
}

/// Whether a word of a stack points into a file, so that the stack may have frames of it. Other
/// files are not read, because they can be large.
fn is_on_stack(file: &MappedFile, stacks: &[StackCopy]) -> bool {
    stacks.iter().flat_map(StackCopy::words).any(|word| (file.start..file.end).contains(&word))
}

fn unwind_stack(unwinder: &NativeUnwinder, cache: &mut NativeCache, stack: &StackCopy) -> Vec<u64> {
    let Registers { instruction_pointer, stack_pointer, frame_pointer, return_address } =
        stack.registers;
    // The return address of the innermost frame is on the stack on x86-64.
    let first_register =
        if cfg!(target_arch = "aarch64") { return_address } else { instruction_pointer };
    let registers = UnwindRegsNative::new(first_register, stack_pointer, frame_pointer);
    let mut read = |address| stack.word_at(address).ok_or(());
    let mut frames = unwinder.iter_frames(instruction_pointer, registers, cache, &mut read);
    let mut addresses = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        addresses.push(FrameAddress::address_for_lookup(frame));
        if addresses.len() == MAX_FRAMES {
            break;
        }
    }
    addresses
}

/// Reads the unwind tables of a file.
fn unwind_module(file: &MappedFile) -> Option<Module<Vec<u8>>> {
    let cache: ReadCache<File> = ReadCache::new(file.open().ok()?);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let section = |name: &str| elf.section_by_name(name);
    let range = |name: &str| {
        let section = section(name)?;
        Some(section.address()..section.address().saturating_add(section.size()))
    };
    let data = |name: &str| section(name)?.data().ok().map(<[u8]>::to_vec);
    let info = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    };
    let name = file.path.to_string_lossy().into_owned();
    Some(Module::new(name, file.start..file.end, load_bias(file, &elf)?, info))
}
