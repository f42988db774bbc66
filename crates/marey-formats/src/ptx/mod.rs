//! Reads PTX, and counts the memory accesses of GPU kernels by source line.
//!
//! Triton and NVIDIA's compilers write PTX, an assembly text with source locations. [`read()`]
//! counts, by function, the instructions that access memory or the tensor cores: loads, stores,
//! atomics, copies, prefetches, matrix multiplications. It needs no GPU.
//!
//! Some instructions are not counted. The hardware keeps parameters of kernels and calls in its
//! constant bank or in registers. Barriers (`mbarrier`), fences and tensor map descriptors order or
//! describe accesses. `ptxas` adds register spills only after PTX.
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
//! assert_eq!(access.locations[0].to_string(), "/kernels.py:4:9");
//! # Ok::<(), ptx::PtxError>(())
//! ```

mod instruction;
mod locations;
mod read;
mod statements;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use read::read;

/// A parsed PTX text.
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
    /// The linker name.
    pub name: String,
    /// Whether the host can launch it.
    pub is_kernel: bool,
    /// The memory accesses, in the order of their first instructions.
    pub accesses: Vec<Access>,
}

/// Equal instructions at one source location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The operation.
    pub operation: Operation,
    /// The instruction without its modifiers, such as `cp.async.bulk`.
    pub instruction: &'static str,
    /// The memory space that is read or written. `None` if all operands are in registers.
    pub space: Option<Space>,
    /// The source of a copy.
    pub source: Option<Space>,
    /// The amount of data that one instruction moves.
    pub width: Width,
    /// The source line, then the call that it was inlined at, and so on outwards. Empty if the text
    /// has no locations.
    pub locations: Arc<[SourceLocation]>,
    /// Number of instructions in the text, however often they run.
    pub count: u64,
}

/// The operation of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads into registers.
    Load,
    /// Writes from registers.
    Store,
    /// Reads, modifies and writes in one step, and returns the old value.
    Atomic,
    /// An atomic operation that returns nothing, also one in bulk.
    Reduce,
    /// Copies from memory to memory asynchronously.
    Copy,
    /// Loads into a cache.
    Prefetch,
    /// Multiplies matrices on the tensor cores.
    Mma,
}

impl Operation {
    /// Returns the name in capitals.
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

/// A memory space of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// A space that the address decides at run time.
    Generic,
    /// The device's memory.
    Global,
    /// Shared memory of the thread block.
    Shared,
    /// Shared memory of any thread block of the cluster.
    Cluster,
    /// The thread's stack, which lies in the device's memory.
    Local,
    /// The constant bank.
    Constant,
    /// The tensor cores' own memory (`tcgen05`).
    Tensor,
    /// Memory that a texture describes.
    Texture,
    /// Memory that a surface describes.
    Surface,
}

impl Space {
    /// Returns the name in capitals.
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

/// The amount of data that an instruction moves or computes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Width {
    /// A vector of elements, for each thread.
    Vector {
        /// Number of elements.
        lanes: u16,
        /// Bits of an element.
        bits: u16,
    },
    /// Bytes for each executing thread.
    Bytes(u64),
    /// Shape and types of a matrix operation of all threads together, in PTX notation.
    Tile(String),
    /// The amount is in a register or a descriptor.
    Unknown,
}

impl Width {
    /// Returns the number of bits that one thread moves. `None` if threads work together or the
    /// amount is unknown.
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

/// A location in a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// Path of the file, or only the file name if the text has no more.
    pub file: Arc<str>,
    /// Line, counted from 1. 0 if the compiler does not know it.
    pub line: u32,
    /// Column, counted from 1. 0 if the compiler does not know it.
    pub column: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a text could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PtxError {
    /// The text is not PTX.
    #[error("it is not PTX: `.version` or `.target` is missing")]
    NotPtx,
    /// The text is for an AMD GPU.
    #[error("it is AMD assembly (`.amdgcn_target`); only PTX is read")]
    Amd,
    /// The text ends inside a function.
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
