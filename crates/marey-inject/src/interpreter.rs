//! Finds the interpreter of a process, its version, and the place where it accepts requests.

use std::io;

use marey_attach::process::is_free_threaded;
use marey_attach::{AddressRange, MappedFile, mapped_files, writable_memory};

use crate::InjectError;
use crate::elf;
use crate::memory::Memory;
use crate::pending_calls::{PendingCalls, PendingCallsLayout};
use crate::remote_exec::RemoteExec;

const SUPPORTED: &str = "marey attaches to CPython 3.10 to 3.14";

/// The place where an interpreter accepts requests.
#[derive(Debug)]
pub(crate) enum RequestPlace {
    /// CPython 3.10 to 3.13.
    PendingCalls(PendingCalls),
    /// CPython 3.14.
    RemoteExec(RemoteExec),
}

/// The result of an attempt to place a request.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The request is placed.
    Placed,
    /// The interpreter is changing the place, or the place is full. A later attempt may succeed.
    Later(&'static str),
    /// The structures are not as expected, and nothing was written.
    Unexpected(String),
}

impl RequestPlace {
    /// Finds the interpreter of a process.
    pub(crate) fn find(pid: u32) -> Result<Self, InjectError> {
        let unsupported = |reason: String| InjectError::Unsupported { pid, reason };
        let images = mapped_files(pid);
        check_libc(&images).map_err(unsupported)?;
        let python = PythonRuntime::find(pid, &images).map_err(unsupported)?;
        match python.minor {
            10..=13 => {
                let layout = PendingCallsLayout::of_minor(python.minor);
                let run_string_address = python.run_string_address.ok_or_else(|| {
                    unsupported("its interpreter exports no PyRun_SimpleString".to_owned())
                })?;
                let unused_ranges =
                    unused_ranges(pid, &images).map_err(|error| unsupported(error.to_string()))?;
                PendingCalls::find(
                    python.memory,
                    python.runtime_address,
                    run_string_address,
                    layout,
                    unused_ranges,
                )
                .map(Self::PendingCalls)
            }
            14 => RemoteExec::find(python.memory, python.runtime_address).map(Self::RemoteExec),
            minor => Err(format!("it runs CPython 3.{minor}; {SUPPORTED}")),
        }
        .map_err(unsupported)
    }

    /// Writes the request. The threads must be stopped.
    pub(crate) fn place(&mut self, script: &str) -> Attempt {
        let result = match self {
            Self::PendingCalls(calls) => calls.place(script),
            Self::RemoteExec(remote) => remote.place(script),
        };
        result.unwrap_or_else(|error| Attempt::Unexpected(error.to_string()))
    }

    /// Makes the interpreter look at the request again. The threads may run.
    pub(crate) fn remind(&self) {
        if let Self::PendingCalls(calls) = self {
            // An error is ignored, because it means that the process has ended.
            drop(calls.remind());
        }
    }

    /// Removes the rest of the request, so that it does nothing. The threads must be stopped unless
    /// the interpreter has run the request (`has_run`).
    pub(crate) fn withdraw(&mut self, has_run: bool) {
        // An error is ignored, because it means that the process has ended.
        drop(match self {
            Self::PendingCalls(calls) => calls.withdraw(has_run),
            Self::RemoteExec(remote) => remote.withdraw(has_run),
        });
    }
}

/// An interpreter, found by the symbols of its library or program.
struct PythonRuntime {
    memory: Memory,
    /// Address of `_PyRuntime`.
    runtime_address: u64,
    /// Address of `PyRun_SimpleString`.
    run_string_address: Option<u64>,
    minor: u8,
}

impl PythonRuntime {
    fn find(pid: u32, images: &[MappedFile]) -> Result<Self, String> {
        let memory = Memory::new(pid);
        let is_library = |image: &&MappedFile| image.name().starts_with("libpython3");
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        let program = program.map_err(|error| error.to_string())?;
        let candidates = images.iter().filter(is_library);
        for image in candidates.chain(images.iter().filter(|image| image.path == program)) {
            let symbol_names = ["_PyRuntime", "PyRun_SimpleString", "Py_Version", "PyIter_Send"];
            let addresses = elf::symbols(image, symbol_names);
            let [runtime_address, run_string_address, version_address, iter_send_address] =
                addresses
                    .map_err(|error| format!("{} cannot be read: {error}", image.path.display()))?;
            let Some(runtime_address) = runtime_address else { continue };
            let minor = match (version_address, iter_send_address) {
                (Some(address), _) => minor_of(memory.read_u64(address))?,
                // CPython 3.11 added the variable `Py_Version`, and 3.10 the function
                // `PyIter_Send`.
                (None, Some(_)) => 10,
                (None, None) => return Err(format!("it runs CPython 3.9 or older; {SUPPORTED}")),
            };
            if is_free_threaded(&image.name()) {
                return Err("free-threaded builds of CPython are not supported yet".to_owned());
            }
            return Ok(Self { memory, runtime_address, run_string_address, minor });
        }
        Err("no interpreter of CPython was found in it".to_owned())
    }
}

/// Returns the minor version in the value of `Py_Version`, which is 0x030b07f0 for 3.11.7.
fn minor_of(version: io::Result<u64>) -> Result<u8, String> {
    let version = version.map_err(|error| error.to_string())?;
    match (version >> 24, (version >> 16 & 0xff) as u8) {
        (3, minor) => Ok(minor),
        _ => Err(format!("its version is unknown; {SUPPORTED}")),
    }
}

/// Returns an error if the process uses another C library than marey's own libraries.
fn check_libc(images: &[MappedFile]) -> Result<(), String> {
    let uses_musl = images.iter().any(|image| image.name().starts_with("ld-musl"));
    match (uses_musl, cfg!(target_env = "musl")) {
        (true, false) => Err("it uses musl, and this marey is built for glibc".to_owned()),
        (false, true) => Err("it uses glibc, and this marey is built for musl".to_owned()),
        _ => Ok(()),
    }
}

/// Returns unused memory of libraries. The memory of the loader is left out, because the loader
/// uses it, and so is the program's, because the heap may begin there.
fn unused_ranges(pid: u32, images: &[MappedFile]) -> io::Result<Vec<AddressRange>> {
    let writable = writable_memory(pid)?;
    let is_writable = |range: &AddressRange| {
        writable.iter().any(|memory| memory.0 <= range.0 && range.1 <= memory.1)
    };
    let libraries = images
        .iter()
        .filter(|image| image.name().contains(".so") && !image.name().starts_with("ld"));
    Ok(libraries
        .filter_map(|image| elf::unused_range(image).ok().flatten())
        .filter(is_writable)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_threaded_builds_are_known_by_their_names() {
        for name in ["libpython3.13t.so.1.0", "python3.14t", "libpython3.13td.so"] {
            assert!(is_free_threaded(name), "{name}");
        }
        for name in ["libpython3.13.so.1.0", "python3.14", "python3", "libtorch_python.so"] {
            assert!(!is_free_threaded(name), "{name}");
        }
    }

    #[test]
    fn the_minor_version_is_in_the_second_byte() {
        assert_eq!(minor_of(Ok(0x030b_07f0)), Ok(11));
        assert!(minor_of(Ok(0x0206_09f0)).is_err());
        assert!(minor_of(Ok(0)).is_err());
    }
}
