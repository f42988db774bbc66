//! Reads and writes the memory of another process.

use std::io::{self, IoSlice, IoSliceMut};

use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

/// The memory of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory(Pid);

impl Memory {
    pub(crate) const fn new(pid: u32) -> Self {
        Self(Pid::from_raw(pid.cast_signed()))
    }

    /// Fills the buffer from an address.
    pub(crate) fn read(self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let remote = RemoteIoVec { base: address as usize, len: buffer.len() };
        let length = buffer.len();
        complete(process_vm_readv(self.0, &mut [IoSliceMut::new(buffer)], &[remote])?, length)
    }

    /// Writes bytes to an address.
    pub(crate) fn write(self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let remote = RemoteIoVec { base: address as usize, len: bytes.len() };
        complete(process_vm_writev(self.0, &[IoSlice::new(bytes)], &[remote])?, bytes.len())
    }

    /// Reads `N` bytes.
    pub(crate) fn read_bytes<const N: usize>(self, address: u64) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn read_u64(self, address: u64) -> io::Result<u64> {
        self.read_bytes(address).map(u64::from_ne_bytes)
    }

    /// Reads `N` consecutive words.
    pub(crate) fn read_words<const N: usize>(self, address: u64) -> io::Result<[u64; N]> {
        let mut words = [[0; 8]; N];
        self.read(address, words.as_flattened_mut())?;
        Ok(words.map(u64::from_ne_bytes))
    }

    pub(crate) fn read_i32(self, address: u64) -> io::Result<i32> {
        self.read_bytes(address).map(i32::from_ne_bytes)
    }

    pub(crate) fn write_u64(self, address: u64, value: u64) -> io::Result<()> {
        self.write(address, &value.to_ne_bytes())
    }

    pub(crate) fn write_i32(self, address: u64, value: i32) -> io::Result<()> {
        self.write(address, &value.to_ne_bytes())
    }
}

fn complete(transferred: usize, length: usize) -> io::Result<()> {
    if transferred == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
