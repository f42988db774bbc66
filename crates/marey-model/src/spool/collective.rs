//! Collective operations and point-to-point messages in a spool, with their encoding.

use super::error::Malformed;
use super::varint::{Fields, put_optional, put_signed, put_varint, to_u32, variant_with_number};

/// A collective operation or point-to-point message of the process. Its times are in nanoseconds
/// since 1970, because the library that keeps them reads the wall clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Text id of the operation, such as `all_reduce`.
    pub name_id: u32,
    /// Text id of the group's name.
    pub group_id: u32,
    /// Text id of the group's ranks, such as `0-3,8`.
    pub group_ranks_id: Option<u32>,
    /// Number of ranks in the group.
    pub group_size: Option<u32>,
    /// Sequence number in the group.
    pub sequence: Option<u64>,
    /// Text id of the element type.
    pub dtype_id: Option<u32>,
    /// Number of input elements.
    pub in_elements: Option<u64>,
    /// Number of output elements.
    pub out_elements: Option<u64>,
    /// Time of the call since 1970.
    pub created_unix_nanos: i64,
    /// Start since 1970, if the library saw it.
    pub started_unix_nanos: Option<i64>,
    /// Duration, if the library measured it.
    pub duration_nanos: Option<u64>,
    /// State.
    pub state: CollectiveState,
    /// Whether it is a point-to-point message.
    pub is_p2p: bool,
}

/// State of a collective when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CollectiveState {
    /// Scheduled.
    Scheduled = 0,
    /// Started.
    Started = 1,
    /// Completed.
    Completed = 2,
}

impl CollectiveState {
    /// Every state, in the order of its number.
    pub const ALL: [Self; 3] = [Self::Scheduled, Self::Started, Self::Completed];
}

impl Collective {
    /// Returns the ids of its texts.
    pub fn text_ids(&self) -> impl Iterator<Item = u32> {
        [self.name_id, self.group_id].into_iter().chain(self.group_ranks_id).chain(self.dtype_id)
    }

    /// Returns the collective with other ids of its texts.
    #[must_use]
    pub fn with_text_ids(self, mut map: impl FnMut(u32) -> u32) -> Self {
        Self {
            name_id: map(self.name_id),
            group_id: map(self.group_id),
            group_ranks_id: self.group_ranks_id.map(&mut map),
            dtype_id: self.dtype_id.map(&mut map),
            ..self
        }
    }
}

/// Smallest encoding of a collective.
const MIN_COLLECTIVE_BYTES: usize = 12;

/// Bit of `is_p2p` beside the state.
const P2P: u8 = 1 << 7;

pub(super) fn put_collectives(out: &mut Vec<u8>, collectives: &[Collective]) {
    put_varint(out, collectives.len() as u64);
    let mut previous_nanos = 0_i64;
    for collective in collectives {
        let created_nanos = collective.created_unix_nanos;
        out.push(collective.state as u8 | if collective.is_p2p { P2P } else { 0 });
        put_varint(out, u64::from(collective.name_id));
        put_varint(out, u64::from(collective.group_id));
        put_signed(out, created_nanos.wrapping_sub(previous_nanos));
        put_optional(out, collective.group_ranks_id.map(u64::from));
        put_optional(out, collective.group_size.map(u64::from));
        put_optional(out, collective.sequence);
        put_optional(out, collective.dtype_id.map(u64::from));
        put_optional(out, collective.in_elements);
        put_optional(out, collective.out_elements);
        let started_nanos = collective.started_unix_nanos;
        put_optional(
            out,
            started_nanos.map(|nanos| nanos.wrapping_sub(created_nanos).cast_unsigned()),
        );
        put_optional(out, collective.duration_nanos);
        previous_nanos = created_nanos;
    }
}

pub(super) fn read_collectives(fields: &mut Fields<'_>) -> Result<Vec<Collective>, Malformed> {
    let count = fields.read_count(MIN_COLLECTIVE_BYTES)?;
    let mut previous_nanos = 0_i64;
    let mut collectives = Vec::with_capacity(count);
    for _ in 0..count {
        let state_and_p2p = fields.read_byte()?;
        let (name_id, group_id) = (fields.read_u32()?, fields.read_u32()?);
        let created_nanos = previous_nanos.wrapping_add(fields.read_signed()?);
        let group_ranks_id = read_optional_u32(fields)?;
        let group_size = read_optional_u32(fields)?;
        let sequence = fields.read_optional()?;
        let dtype_id = read_optional_u32(fields)?;
        let (in_elements, out_elements) = (fields.read_optional()?, fields.read_optional()?);
        let delay_nanos = fields.read_optional()?;
        collectives.push(Collective {
            name_id,
            group_id,
            group_ranks_id,
            group_size,
            sequence,
            dtype_id,
            in_elements,
            out_elements,
            created_unix_nanos: created_nanos,
            started_unix_nanos: delay_nanos
                .map(|nanos| created_nanos.wrapping_add(nanos.cast_signed())),
            duration_nanos: fields.read_optional()?,
            state: variant_with_number(
                &CollectiveState::ALL,
                "state of a collective",
                state_and_p2p & !P2P,
            )?,
            is_p2p: state_and_p2p & P2P != 0,
        });
        previous_nanos = created_nanos;
    }
    Ok(collectives)
}

fn read_optional_u32(fields: &mut Fields<'_>) -> Result<Option<u32>, Malformed> {
    fields.read_optional()?.map(to_u32).transpose()
}
