//! The spool: what a recording process appends to while it runs, and what survives its death.
//!
//! A file is a header, the bytes `MAREYSPL` and a `u32` version, and then frames. A frame is
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of kind and payload |
//! | 4 | CRC-32 of kind and payload |
//! | 1 | kind |
//! | length - 1 | payload |
//!
//! little endian. Numbers in a payload are LEB128 varints, zigzag where they may be negative;
//! times are nanoseconds of the process's monotonic clock unless they say otherwise. Within a
//! frame, times and ids are written as differences; no frame needs another one to be decoded.
//!
//! A process that is killed leaves at most a torn last frame. [`Reader`] gives back every frame
//! before it and says what it left out ([`Reader::torn`]).
//!
//! ```
//! use marey_model::spool::{Frame, Reader, Writer};
//!
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file)?;
//! writer.frame(&Frame::Clock { monotonic_nanos: 5, unix_nanos: 1_700_000_000_000_000_000 })?;
//! writer.frame(&Frame::End)?;
//!
//! let torn = &file[..file.len() - 1];
//! let mut reader = Reader::new(torn)?;
//! assert!(matches!(reader.next(), Some(Ok(Frame::Clock { monotonic_nanos: 5, .. }))));
//! assert!(reader.next().is_none());
//! assert_eq!(reader.torn().map(|torn| torn.lost_bytes), Some(8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod decode;
mod device;
mod encode;
mod error;
mod frame;
mod numbered;
mod read;
pub(crate) mod varint;
mod write;

pub use device::{Activity, ActivityKind, Detail, Device, Shape};
pub use encode::encode;
pub use error::{Broken, Malformed, SpoolError, TooLong};
pub use frame::{Counter, Frame, NodeDef, SessionEvent, Span, Value};
pub use numbered::Numbered;
pub use read::{Reader, Torn};
pub use varint::{unzigzag, zigzag};
pub use write::Writer;

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"MAREYSPL";

/// The version that this code writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// Most bytes that kind and payload of one frame take.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// Bytes of the file's header.
const HEADER_BYTES: usize = MAGIC.len() + size_of::<u32>();

/// Bytes of a frame before its kind: length and CRC.
const PREFIX_BYTES: usize = 2 * size_of::<u32>();

/// The file's first bytes.
fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..MAGIC.len()].copy_from_slice(&MAGIC);
    header[MAGIC.len()..].copy_from_slice(&VERSION.to_le_bytes());
    header
}
