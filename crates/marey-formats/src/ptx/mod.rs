//! PTX: what each line of a GPU kernel does to memory.
//!
//! Triton and NVIDIA's compilers write PTX, a text with the place in the source beside the
//! instructions. [`read()`] counts, function by function, the instructions that touch memory or the
//! tensor cores: loads, stores, atomics, copies, prefetches, matrix multiplications. It needs no GPU.
//!
//! What it does not list: parameters of kernels and calls, which the hardware keeps in its constant
//! bank or in registers; barriers (`mbarrier`), fences and tensor map descriptors, which order or
//! describe accesses and are none; and registers that `ptxas` spills, which it does after PTX.
//!
//! ```
//! use marey_formats::ptx::{self, Operation, Space};
//!
//! let text = b"
//! .version 8.7
//! .target sm_90a
//! .visible .entry twice(.param .u64 x) {
//!     .loc 1 4 9
//!     ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];
//!     ret;
//! }
//! .file 1 \"/kernels.py\"";
//! let module = ptx::read(&text[..])?;
//! let access = &module.functions[0].accesses[0];
//! assert_eq!((access.operation, access.space), (Operation::Load, Some(Space::Global)));
//! assert_eq!(access.width.to_string(), "4x32");
//! assert_eq!(access.places[0].to_string(), "/kernels.py:4:9");
//! # Ok::<(), ptx::PtxError>(())
//! ```

mod instruction;
mod places;
mod read;
mod statements;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use read::read;

/// What a PTX text compiles to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Module {
    /// The architecture, such as `sm_90a`.
    pub target: String,
    /// Kernels, and functions that were not inlined, in the order of the text.
    pub functions: Vec<Function>,
}

/// A kernel, or a function that kernels call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The name, as the linker knows it.
    pub name: String,
    /// Whether the host can launch it.
    pub is_kernel: bool,
    /// What it does to memory, in the order of first instructions.
    pub accesses: Vec<Access>,
}

/// Instructions of one kind at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// What they do.
    pub operation: Operation,
    /// The instruction without its modifiers, such as `cp.async.bulk`.
    pub instruction: &'static str,
    /// Which memory they load from or write to; `None` where operands are in registers.
    pub space: Option<Space>,
    /// Where a copy takes from.
    pub source: Option<Space>,
    /// How much one of them moves.
    pub width: Width,
    /// The line they were compiled from, then the call that it was inlined at, and so on outwards.
    /// Empty where the text does not say.
    pub places: Arc<[Place]>,
    /// How many instructions, each counted once however often it runs.
    pub count: u64,
}

/// What an instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads into registers.
    Load,
    /// Writes registers.
    Store,
    /// Reads, changes and writes in one step, and gives the old value.
    Atomic,
    /// The same, and gives nothing; also in bulk.
    Reduce,
    /// Moves from memory to memory, in the background.
    Copy,
    /// Brings into a cache.
    Prefetch,
    /// Multiplies matrices on the tensor cores.
    Mma,
}

impl Operation {
    /// The word for it, in capitals.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Load => "LOAD",
            Self::Store => "STORE",
            Self::Atomic => "ATOMIC",
            Self::Reduce => "REDUCE",
            Self::Copy => "COPY",
            Self::Prefetch => "PREFETCH",
            Self::Mma => "MMA",
        }
    }
}

/// A memory of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Any of them: the address tells at run time.
    Generic,
    /// The device's memory.
    Global,
    /// Shared memory of the thread block.
    Shared,
    /// Shared memory of any thread block of the cluster.
    Cluster,
    /// The thread's own stack, which lies in the device's memory.
    Local,
    /// The constant bank.
    Constant,
    /// The tensor cores' own memory (`tcgen05`).
    Tensor,
    /// What a texture describes.
    Texture,
    /// What a surface describes.
    Surface,
}

impl Space {
    /// The word for it, in capitals.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Generic => "GENERIC",
            Self::Global => "GLOBAL",
            Self::Shared => "SHARED",
            Self::Cluster => "CLUSTER",
            Self::Local => "LOCAL",
            Self::Constant => "CONSTANT",
            Self::Tensor => "TENSOR",
            Self::Texture => "TEXTURE",
            Self::Surface => "SURFACE",
        }
    }
}

/// How much an instruction moves or computes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Width {
    /// Elements of so many bits, for each thread.
    Vector {
        /// Elements.
        lanes: u16,
        /// Bits of each.
        bits: u16,
    },
    /// Bytes, for each thread that executes it.
    Bytes(u64),
    /// Shape and types of a matrix operation of all threads together, as PTX writes them.
    Tile(String),
    /// A register or a descriptor holds it.
    Unknown,
}

impl Width {
    /// Bits that one thread moves; `None` where threads work together or nobody knows.
    pub const fn thread_bits(&self) -> Option<u64> {
        match *self {
            Self::Vector { lanes, bits } => Some(lanes as u64 * bits as u64),
            Self::Bytes(bytes) => bytes.checked_mul(8),
            Self::Tile(_) | Self::Unknown => None,
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vector { lanes: 1, bits } => write!(f, "{bits}"),
            Self::Vector { lanes, bits } => write!(f, "{lanes}x{bits}"),
            Self::Bytes(bytes) => write!(f, "{bytes} B"),
            Self::Tile(text) => f.write_str(text),
            Self::Unknown => f.write_str("-"),
        }
    }
}

/// A place in a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's path; its last part alone where the text has no more.
    pub file: Arc<str>,
    /// From 1; 0 where the compiler does not know.
    pub line: u32,
    /// The same.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a text could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PtxError {
    /// It is none.
    #[error("it is no PTX: there is no `.version` and `.target`")]
    NotPtx,
    /// It is of an AMD GPU.
    #[error("it is AMD assembly (`.amdgcn_target`); only PTX is read")]
    Amd,
    /// A part is missing.
    #[error("it ends in line {line}, inside `{function}`")]
    Truncated {
        /// The function without an end.
        function: String,
        /// The last line.
        line: u64,
    },
    /// The file itself could not be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}
