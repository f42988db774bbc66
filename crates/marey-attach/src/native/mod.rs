//! Adds the native frames of the threads of a process to their Python frames.
//!
//! The threads are stopped ([`crate::stop`]) only while their stacks are copied. The copies are
//! unwound ([`unwind`]), named ([`symbols`]) and merged ([`merge`]) while the threads run again.

mod code_files;
mod merge;
mod symbols;
mod unwind;

use std::path::Path;

pub use self::code_files::CodeFiles;
use self::merge::NativeFrame;
use self::unwind::StackCopy;
use crate::Thread;
use crate::memory::{ProcessMemory, mapped_files, mapped_memory};
use crate::stop::registers;

/// Copies of the native stacks of threads, in the order of the threads.
pub(crate) struct StackCopies(Vec<Option<StackCopy>>);

impl StackCopies {
    /// Copies the stacks of stopped threads. The caller is the work of
    /// [`crate::stop::while_stopped`].
    pub(crate) fn read(pid: u32, threads: &[Thread]) -> Self {
        let memory = ProcessMemory::open(pid);
        let ranges = mapped_memory(pid).unwrap_or_default();
        let copy = |thread: &Thread| {
            Some(StackCopy::read(memory.as_ref()?, &ranges, registers(thread.os_id?)?))
        };
        Self(threads.iter().map(copy).collect())
    }

    /// Adds the native frames to the threads. A thread whose native and Python frames do not match
    /// keeps its Python frames alone.
    pub(crate) fn merge_into(self, pid: u32, threads: &mut [Thread]) {
        let files = mapped_files(pid);
        let (thread_indexes, stacks): (Vec<usize>, Vec<StackCopy>) =
            self.0.into_iter().enumerate().filter_map(|(index, copy)| Some((index, copy?))).unzip();
        let unwound = unwind::unwind(&files, &stacks);
        let functions = symbols::functions(&files, &unwound.concat());
        let native_frame = |&address: &u64| {
            let function = functions.get(&address);
            let file = function.and_then(|function| files.get(function.file_index));
            NativeFrame { function, file: file.map_or(Path::new("?"), |file| &file.path), address }
        };
        for (thread_index, addresses) in thread_indexes.into_iter().zip(unwound) {
            let native: Vec<NativeFrame> = addresses.iter().map(native_frame).collect();
            let Some(thread) = threads.get_mut(thread_index) else { continue };
            if let Some(frames) = merge::merge(&native, &thread.frames) {
                thread.frames = frames;
                thread.has_native_frames = true;
            }
        }
    }
}
