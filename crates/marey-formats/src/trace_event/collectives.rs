//! Converts the collectives of PyTorch to rows.
//!
//! PyTorch describes a collective at the call on the host (`record_param_comms`), and again at the
//! kernel, which has the `External id` of the call. The kernel has the time of the collective, so
//! it is the row. A call without a kernel is a row too: that of a backend without kernels, of a
//! profiler without device activities, or of members of a group that one kernel executes.

use std::cmp::Reverse;
use std::collections::HashSet;

use marey_store::row::{Args, Collective, CollectiveState, GpuActivity};

use super::event::Event;
use super::number::parse_integer;
use crate::shared::group_ranks::GroupRanks;
use crate::shared::import::{CollectiveEnd, Import, ReaderError};

/// The argument with the name of a collective.
pub(super) const COLLECTIVE_ARG: &str = "Collective name";

/// The name of the spans of calls.
const CALL_NAME: &str = "record_param_comms";

/// Names that PyTorch gives to calls which are no collectives: the creation of a group, and the
/// wait of a stream for a collective.
const OTHER_CALLS: [&str; 2] = ["init", "wait"];

/// The collectives of a file.
#[derive(Debug, Default)]
pub(super) struct Collectives {
    /// The external ids of collectives that have an activity.
    ids_with_activity: HashSet<u64>,
    /// Whether an activity lacks the external id, so that its call cannot be found.
    has_activity_without_id: bool,
    calls: Vec<Call>,
}

/// A call on the host.
#[derive(Debug)]
struct Call {
    thread_id: u32,
    end_nanos: i64,
    external_id: Option<u64>,
    row: Collective,
}

/// The span of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallSpan {
    pub(super) process_id: u32,
    pub(super) thread_id: u32,
    pub(super) start_nanos: i64,
    /// `None` if it has not ended.
    pub(super) duration_nanos: Option<i64>,
    pub(super) external_id: Option<u64>,
}

impl Collectives {
    /// Adds the collective of a device activity.
    pub(super) fn add_activity(
        &mut self,
        event: &Event,
        name: &str,
        activity: &GpuActivity,
        external_id: Option<u64>,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        self.ids_with_activity.extend(external_id);
        self.has_activity_without_id |= external_id.is_none();
        let row = Collective {
            start_nanos: activity.start_nanos,
            duration_nanos: Some(activity.duration_nanos),
            process_id: activity.process_id,
            device: Some(activity.device),
            stream: Some(activity.stream),
            state: CollectiveState::Completed,
            ..collective_from_args(event, &event.unquote(name), import)
        };
        import.run.add_collective(&row)?;
        // Collectives without a sequence number cannot be matched by counting, because files may
        // begin in the middle of a job. The two ends of a point-to-point message count separately,
        // so they do not align clocks.
        if let (Some(sequence), false) = (row.sequence, row.is_p2p) {
            import.collective_ends.push(CollectiveEnd {
                group_id: row.group_id,
                group_ranks_id: row.group_ranks_id,
                group_size: row.group_size,
                sequence,
                name_id: row.name_id,
                end_nanos: activity.start_nanos.saturating_add(activity.duration_nanos),
                offset: event.offset,
            });
        }
        Ok(())
    }

    /// Keeps the collective of a host event, if it is the call of one, until all activities are
    /// known.
    pub(super) fn add_call(
        &mut self,
        event: &Event,
        name: &str,
        span: CallSpan,
        import: &mut Import,
    ) {
        if name != CALL_NAME {
            return;
        }
        let Some(name) = event.arg(COLLECTIVE_ARG).map(|name| event.unquote(name)) else { return };
        if OTHER_CALLS.contains(&&*name) {
            return;
        }
        let duration_nanos = span.duration_nanos.unwrap_or(0);
        self.calls.push(Call {
            thread_id: span.thread_id,
            end_nanos: span.start_nanos.saturating_add(duration_nanos),
            external_id: span.external_id,
            row: Collective {
                start_nanos: span.start_nanos,
                duration_nanos: span.duration_nanos,
                created_nanos: Some(span.start_nanos),
                process_id: span.process_id,
                // The call may return before the collective starts.
                state: CollectiveState::Scheduled,
                ..collective_from_args(event, &name, import)
            },
        });
    }

    /// Adds the calls without an activity.
    pub(super) fn finish(self, import: &mut Import) -> Result<(), ReaderError> {
        let Self { ids_with_activity, has_activity_without_id, mut calls } = self;
        if has_activity_without_id {
            return Ok(());
        }
        // A collective may be made of others, whose calls are inside its own, as a gather of
        // unequal sizes is made of broadcasts. It counts once.
        calls.sort_by_key(|call| (call.thread_id, call.row.start_nanos, Reverse(call.end_nanos)));
        let are_nested = |outer: &Call, call: &Call| {
            call.thread_id == outer.thread_id && call.row.start_nanos < outer.end_nanos
        };
        let mut remaining_calls = calls.as_slice();
        while let Some(outer) = remaining_calls.first() {
            let inner = remaining_calls.iter().skip(1).take_while(|call| are_nested(outer, call));
            let (nested, calls_after) = remaining_calls.split_at(1 + inner.count());
            let has_activity = |call: &Call| {
                call.external_id.is_some_and(|external_id| ids_with_activity.contains(&external_id))
            };
            if !nested.iter().any(has_activity) {
                import.run.add_collective(&outer.row)?;
            }
            remaining_calls = calls_after;
        }
        Ok(())
    }
}

/// Returns the part of a row that the arguments of the event describe. The event's own row has the
/// arguments.
fn collective_from_args(event: &Event, name: &str, import: &mut Import) -> Collective {
    let text_arg = |key| event.arg(key).map(|value| event.unquote(value).into_owned());
    let number = |key| event.arg(key).and_then(parse_integer);
    let group = text_arg("Process Group Name").or_else(|| text_arg("Process Group ID"));
    let ranks = text_arg("Process Group Ranks").and_then(|ranks| GroupRanks::parse(&ranks));
    let group_size = number("Group size").and_then(|size| size.try_into().ok());
    Collective {
        start_nanos: 0,
        duration_nanos: None,
        created_nanos: None,
        process_id: 0,
        device: None,
        stream: None,
        name_id: import.run.text_id(name),
        group_id: import.run.text_id(&group.unwrap_or_default()),
        group_ranks_id: ranks.as_ref().map(|ranks| import.run.text_id(&ranks.canonical)),
        group_size: group_size.or(ranks.map(|ranks| ranks.count)),
        sequence: number("Seq"),
        dtype_id: text_arg("dtype").map(|dtype| import.run.text_id(&dtype)),
        in_elements: number("In msg nelems"),
        out_elements: number("Out msg nelems"),
        state: CollectiveState::Completed,
        is_p2p: matches!(name, "send" | "recv"),
        context_id: None,
        args: Args::default(),
    }
}
