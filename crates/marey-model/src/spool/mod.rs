//! The spool: the append-only file that a recording process writes traces to.
//!
//! A file consists of a header (the bytes `MAREYSPL` and a `u32` version) and frames. A frame is
//!
//! | bytes | content |
//! |---|---|
//! | 4 | length of kind and payload |
//! | 4 | CRC-32 of kind and payload |
//! | 1 | kind |
//! | length - 1 | payload |
//!
//! in little endian. Integers in a payload are LEB128 varints, zigzag-encoded if they may be
//! negative; timestamps are nanoseconds of the process's monotonic clock unless stated otherwise.
//! Within a frame, timestamps and ids are delta-encoded; each frame can be decoded on its own.
//!
//! A process that is killed leaves at most a torn last frame. [`SpoolReader`] returns every frame
//! before it and reports the rest ([`SpoolReader::torn`]).
//!
//! ```
//! use marey_model::spool::{SpoolFrame, SpoolReader, SpoolWriter};
//!
//! let mut file = Vec::new();
//! let mut writer = SpoolWriter::new(&mut file)?;
//! writer.write_frame(&SpoolFrame::Clock { monotonic_nanos: 5, unix_nanos: 1_700_000_000_000_000_000 })?;
//! writer.write_frame(&SpoolFrame::End)?;
//!
//! let torn = &file[..file.len() - 1];
//! let mut reader = SpoolReader::new(torn)?;
//! assert!(matches!(reader.next(), Some(Ok(SpoolFrame::Clock { monotonic_nanos: 5, .. }))));
//! assert!(reader.next().is_none());
//! assert_eq!(reader.torn().map(|torn| torn.lost_bytes), Some(8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod collective;
mod decode;
mod device;
mod encode;
mod error;
mod frame;
mod id_map;
mod read;
mod ring;
mod ring_join;
mod sample;
mod variable;
pub(crate) mod varint;
mod write;

pub use collective::{Collective, CollectiveState};
pub use device::{Activity, ActivityKind, ActivityShape, Detail, Device};
pub use encode::encode;
pub use error::{FrameTooLong, Inconsistency, Malformed, SpoolError};
pub use frame::{AutogradCall, Counter, NodeDef, RecordedValue, SessionEvent, Span, SpoolFrame};
pub use id_map::IdMap;
pub use read::{SpoolReader, TornTail};
pub use ring::{RING_RECORDS, RING_SECONDS, join_ring};
pub use sample::{Sample, SampleCause};
pub use variable::Variable;
pub use varint::{unzigzag, zigzag};
pub use write::SpoolWriter;

/// Magic bytes at the start of a file.
pub const MAGIC: [u8; 8] = *b"MAREYSPL";

/// The format version that this code writes and reads.
pub const VERSION: u32 = 1;

/// Maximum size of the kind and payload of a frame.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// Size of the file header.
const HEADER_BYTES: usize = MAGIC.len() + size_of::<u32>();

/// Size of a frame's prefix: length and CRC.
const PREFIX_BYTES: usize = 2 * size_of::<u32>();

/// Returns the file header.
fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..MAGIC.len()].copy_from_slice(&MAGIC);
    header[MAGIC.len()..].copy_from_slice(&VERSION.to_le_bytes());
    header
}
