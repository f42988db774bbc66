//! Reads the rank of a process in a distributed job from its environment.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::memory::{ProcessMemory, exported_address, mapped_files};

/// The maximum number of environment variables that are read.
const MAX_VARIABLES: u64 = 10_000;
/// The number of bytes that are read of a variable. The variables of ranks are shorter.
const MAX_VARIABLE_BYTES: usize = 256;

/// The position of a process in a distributed job, as `torchrun` states it in the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Rank {
    /// `RANK`.
    pub rank: u32,
    /// `LOCAL_RANK`: the rank among those of the host.
    pub local_rank: Option<u32>,
    /// `WORLD_SIZE`: the number of ranks.
    pub world_size: Option<u32>,
    /// `LOCAL_WORLD_SIZE`: the number of ranks of the host.
    pub local_world_size: Option<u32>,
    /// `MASTER_ADDR` and `MASTER_PORT`, where the ranks of one job meet.
    pub rendezvous: Option<String>,
}

impl Rank {
    /// Reads the rank of a process, first from `/proc/PID/environ`. A rank that was set after the
    /// process began, as by `torch.multiprocessing.spawn`, is only in its memory.
    pub(crate) fn of_process(pid: u32) -> Option<Self> {
        let initial = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let initial = initial.split(|&byte| byte == 0).map(<[u8]>::to_vec);
        Self::from_variables(initial).or_else(|| Self::from_variables(variables(pid)?))
    }

    /// Whether two processes belong to one job.
    pub(crate) fn shares_job(&self, other: &Self) -> bool {
        self.rendezvous == other.rendezvous && self.world_size == other.world_size
    }

    fn from_variables(variables: impl IntoIterator<Item = Vec<u8>>) -> Option<Self> {
        let (mut rank, mut local_rank, mut world_size, mut local_world_size) =
            (None, None, None, None);
        let (mut host, mut port) = (None, None);
        for variable in variables {
            let text = String::from_utf8_lossy(&variable);
            let Some((name, value)) = text.split_once('=') else { continue };
            match name {
                "RANK" => rank = value.parse().ok(),
                "LOCAL_RANK" => local_rank = value.parse().ok(),
                "WORLD_SIZE" => world_size = value.parse().ok(),
                "LOCAL_WORLD_SIZE" => local_world_size = value.parse().ok(),
                "MASTER_ADDR" => host = Some(value.to_owned()),
                "MASTER_PORT" => port = Some(value.to_owned()),
                _ => {}
            }
        }
        let rendezvous = host.zip(port).map(|(host, port)| format!("{host}:{port}"));
        Some(Self { rank: rank?, local_rank, world_size, local_world_size, rendezvous })
    }
}

/// Returns the current environment variables of a process, from the list `environ` of the C library
/// in its memory.
fn variables(pid: u32) -> Option<Vec<Vec<u8>>> {
    let memory = ProcessMemory::open(pid)?;
    let executable = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let files = mapped_files(pid);
    // A program that refers to `environ` may have a copy relocation of it. The copy in the program
    // is then the one in use, so the program is searched before the library.
    let program = files.iter().filter(|file| file.path == executable);
    let library = files.iter().filter(|file| {
        let name = file.name();
        name.starts_with("libc.so") || name.starts_with("libc-") || name.starts_with("ld-musl")
    });
    let list = program.chain(library).find_map(|file| exported_address(file, "environ"))?;
    let list = memory.word(list)?;
    let pointers = (0..MAX_VARIABLES).map_while(|index| memory.word(list.wrapping_add(8 * index)));
    let read = |address| {
        let mut bytes = memory.read_up_to(address, MAX_VARIABLE_BYTES);
        let end = bytes.iter().position(|&byte| byte == 0);
        bytes.truncate(end.unwrap_or(bytes.len()));
        bytes
    };
    Some(pointers.take_while(|&pointer| pointer != 0).map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_needs_its_number_only() {
        let read = |text: &str| {
            Rank::from_variables(text.split(' ').map(|variable| variable.as_bytes().to_vec()))
        };
        assert_eq!(read("WORLD_SIZE=2 PATH=/bin"), None);
        let rank = read("RANK=3 WORLD_SIZE=8 MASTER_ADDR=h MASTER_PORT=1 X").unwrap();
        assert_eq!((rank.rank, rank.world_size), (3, Some(8)));
        assert_eq!(rank.rendezvous.as_deref(), Some("h:1"));
        assert_eq!(read("RANK=x"), None);
    }
}
