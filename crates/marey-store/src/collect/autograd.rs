//! Links forward operators to the calls of the autograd nodes that they made, as flows.
//!
//! A node is identified by the thread that ran the forward operator and its sequence number there.
//! Several nested operators may carry the number of the next node. The last of them to begin has
//! made it.

use marey_model::spool::AutogradCall;

use super::rows::{decode_words, encode_words, pack_ids};
use super::threads::CollectedThread;
use crate::StoreError;
use crate::row::{Args, DamagedRow, Flow, FlowPoint, RowBytes};
use crate::sort::{Sortable, Sorter, SpillFile};

/// An operator that takes part in a backward pass.
#[derive(Clone, Copy, Debug)]
struct AutogradOperator {
    /// Position of the thread that ran the forward operator.
    forward_thread: u32,
    sequence: u64,
    start_nanos: i64,
    /// Position of the thread that ran this operator.
    thread: u32,
    is_backward: bool,
}

impl Sortable for AutogradOperator {
    /// Sorts the forward operators of a node before its calls, so that the operator that began last
    /// comes just before the calls.
    type Key = (u32, u64, bool, i64);

    fn key(&self) -> Self::Key {
        (self.forward_thread, self.sequence, self.is_backward, self.start_nanos)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let threads = pack_ids(self.forward_thread, self.thread);
        let start_nanos = self.start_nanos.cast_unsigned();
        encode_words([threads, self.sequence, start_nanos, self.is_backward.into()], out);
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        let [threads, sequence, start_nanos, is_backward] = decode_words(input)?;
        Ok(Self {
            forward_thread: threads as u32,
            sequence,
            start_nanos: start_nanos.cast_signed(),
            thread: (threads >> 32) as u32,
            is_backward: is_backward != 0,
        })
    }
}

/// The operators of a spool that take part in a backward pass.
#[derive(Debug)]
pub(super) struct Autograd(Sorter<AutogradOperator>);

impl Autograd {
    /// Creates an empty collection.
    pub(super) fn new(spill_file: &SpillFile) -> Self {
        Self(Sorter::new(spill_file))
    }

    /// Adds the operator of a span. `forward_thread` is the thread that ran the forward operator.
    pub(super) fn add(
        &mut self,
        call: AutogradCall,
        start_nanos: i64,
        thread: &CollectedThread,
        forward_thread: &CollectedThread,
    ) -> Result<(), StoreError> {
        self.0.push(&AutogradOperator {
            forward_thread: forward_thread.position,
            sequence: call.sequence,
            start_nanos,
            thread: thread.position,
            is_backward: call.forward_os_id != 0,
        })
    }

    pub(super) const fn row_count(&self) -> u64 {
        self.0.row_count()
    }

    /// Passes the two points of each link to `on_point`. `thread_ids` has the ids of threads by
    /// position.
    pub(super) fn for_each_point(
        self,
        thread_ids: &[u32],
        name_id: u32,
        first_flow_id: u64,
        mut on_point: impl FnMut(&Flow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut last_forward: Option<AutogradOperator> = None;
        let mut flow_id = first_flow_id;
        self.0.for_each(|operator| {
            if !operator.is_backward {
                last_forward = Some(operator);
                return Ok(());
            }
            let Some(forward) = last_forward.filter(|forward| {
                (forward.forward_thread, forward.sequence)
                    == (operator.forward_thread, operator.sequence)
            }) else {
                return Ok(());
            };
            let point = |operator: AutogradOperator, point| Flow {
                time_nanos: operator.start_nanos,
                thread_id: thread_ids[operator.thread as usize],
                flow_id,
                point,
                is_enclosing: true,
                name_id,
                category_id: Some(name_id),
                args: Args::default(),
            };
            on_point(&point(forward, FlowPoint::Start))?;
            on_point(&point(operator, FlowPoint::End))?;
            flow_id += 1;
            Ok(())
        })
    }
}
