//! Reads torch.profiler's events in a window from the run that its trace was imported as.
//!
//! Only rows of the recorded process are read, with the ids of the run that is being collected.

use std::collections::{BTreeMap, HashMap};

use marey_model::context::NodeKind;

use super::SpanDetail;
use super::alignment::Alignment;
use super::launch_contexts::LaunchContexts;
use super::recorded::{Anchor, anchor_number, plain_name_id};
use super::trace_ids::TraceIds;
use crate::collect::interned::Interned;
use crate::names::Names;
use crate::row::{Flow, GpuActivity, MemoryEvent, Span};
use crate::{Reader, StoreError};

/// Category of Python functions, which the recorder never has.
const PYTHON: &str = "python_function";

/// The start of the names of files with marey's hooks in PyTorch, as the names of Python calls
/// contain it.
const OWN_FILES: &str = "marey/_torch_";

/// The file whose functions wrap functions of the program.
const WRAPPERS: &str = "marey/_torch_patches.py";

/// The profiler's events in a window. After [`ProfilerTrace::shift`], all times are on the clock of the
/// tables.
#[derive(Debug, Default)]
pub(super) struct ProfilerTrace {
    /// The events of each thread, by the operating system's id.
    pub(super) threads: BTreeMap<u64, ThreadTrace>,
    pub(super) activities: Vec<GpuActivity>,
    /// Points of flows with the positions of their threads. Empty before placement.
    pub(super) flows: Vec<Flow>,
    /// The anchors in order.
    pub(super) anchors: Vec<Anchor>,
    /// The first start and the last end of its spans.
    pub(super) extent_nanos: (i64, i64),
    pub(super) launches: LaunchContexts,
}

/// The profiler's events on a thread.
#[derive(Debug, Default)]
pub(super) struct ThreadTrace {
    /// The spans sorted by start, parents first.
    pub(super) spans: Vec<TracedSpan>,
    pub(super) memory_events: Vec<MemoryEvent>,
    pub(super) flows: Vec<Flow>,
}

/// The owner of a Python call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallOwner {
    Program,
    /// A call of marey. All Python calls inside it are marey's too.
    Marey,
    /// A call of marey around a call of the program.
    Wrapper,
}

impl CallOwner {
    fn of_python_call(name: &str) -> Self {
        if name.contains(WRAPPERS) {
            Self::Wrapper
        } else if name.contains(OWN_FILES) {
            Self::Marey
        } else {
            Self::Program
        }
    }
}

/// A span of the profiler.
#[derive(Clone, Debug)]
pub(super) struct TracedSpan {
    pub(super) start_nanos: i64,
    pub(super) end_nanos: i64,
    pub(super) name_id: u32,
    /// The name without the overload.
    pub(super) plain_name_id: u32,
    pub(super) kind: NodeKind,
    /// The owner, if the span is a Python call. The owner of any other span is the program.
    owner: CallOwner,
    /// Whether the recorder may have recorded the same call.
    pub(super) may_have_twin: bool,
    /// The correlation id, if the span is a launch.
    pub(super) correlation_id: Option<u64>,
    pub(super) detail: SpanDetail,
}

impl ProfilerTrace {
    /// Reads the rows of the process with this id of the operating system.
    pub(super) fn read(
        reader: &Reader,
        pid: u64,
        names: &mut Names,
        texts: &mut Interned<String>,
    ) -> Result<Self, StoreError> {
        let mut trace = Self { extent_nanos: (i64::MAX, i64::MIN), ..Self::default() };
        let os_ids = os_ids(reader, pid);
        let mut ids = TraceIds::new(reader, names, texts)?;
        reader.spans_by_thread()?.for_each(|span| {
            if let Some(&os_id) = os_ids.get(&span.thread_id) {
                trace.add_span(os_id, span, &mut ids);
            }
            Ok::<_, StoreError>(())
        })?;
        trace.anchors.sort_unstable();
        trace.read_points(reader, &os_ids, &mut ids)?;
        for activity in reader.rows::<GpuActivity>()? {
            let activity = activity?;
            let (name_id, args) = (ids.text_id(activity.name_id), ids.args(activity.args.clone()));
            let category_id = activity.category_id.map(|id| ids.text_id(id));
            trace.activities.push(GpuActivity { name_id, category_id, args, ..activity });
        }
        Ok(trace)
    }

    /// Reads the memory events and the points of flows.
    fn read_points(
        &mut self,
        reader: &Reader,
        os_ids: &HashMap<u32, u64>,
        ids: &mut TraceIds,
    ) -> Result<(), StoreError> {
        for event in reader.rows::<MemoryEvent>()? {
            let event = event?;
            let Some(&os_id) = event.thread_id.and_then(|thread| os_ids.get(&thread)) else {
                continue;
            };
            let category_id = event.category_id.map(|id| ids.text_id(id));
            let args = ids.args(event.args.clone());
            let thread = self.threads.entry(os_id).or_default();
            thread.memory_events.push(MemoryEvent { category_id, args, ..event });
        }
        for flow in reader.rows::<Flow>()? {
            let flow = flow?;
            let Some(&os_id) = os_ids.get(&flow.thread_id) else { continue };
            let (name_id, args) = (ids.text_id(flow.name_id), ids.args(flow.args.clone()));
            let category_id = flow.category_id.map(|id| ids.text_id(id));
            let thread = self.threads.entry(os_id).or_default();
            thread.flows.push(Flow { name_id, category_id, args, ..flow });
        }
        Ok(())
    }

    fn add_span(&mut self, os_id: u64, span: &Span, ids: &mut TraceIds) {
        let end_nanos = span.start_nanos.saturating_add(span.duration_nanos);
        if anchor_number(ids.reader.text(span.name_id)).is_some() {
            self.anchors.push(Anchor { start_nanos: span.start_nanos, end_nanos });
            return;
        }
        let (first_nanos, last_nanos) = self.extent_nanos;
        self.extent_nanos = (first_nanos.min(span.start_nanos), last_nanos.max(end_nanos));
        let is_python = span.category_id.is_some_and(|id| ids.reader.text(id) == PYTHON);
        let kind = match ids.reader.context(span.context_id).kind {
            // Steps and modules come from the recorder, which numbers steps and names modules by
            // their place in the model. So these spans get other kinds.
            NodeKind::Step => NodeKind::Scope,
            NodeKind::Module => NodeKind::Frame,
            kind => kind,
        };
        let text = ids.reader.text(span.name_id);
        let owner = if is_python { CallOwner::of_python_call(text) } else { CallOwner::Program };
        let name_id = ids.text_id(span.name_id);
        let detail = SpanDetail {
            category_id: span.category_id.map(|id| ids.text_id(id)),
            external_id: span.external_id,
            args: ids.operator_args(span.args.clone(), span.external_id),
        };
        self.threads.entry(os_id).or_default().spans.push(TracedSpan {
            start_nanos: span.start_nanos,
            end_nanos,
            name_id,
            plain_name_id: plain_name_id(name_id, ids.names),
            kind,
            owner,
            may_have_twin: !is_python,
            correlation_id: span.correlation_id,
            detail,
        });
    }

    /// Removes the spans that begin outside of a time range. These are the Python calls in progress
    /// at the start, whose own start is unknown. Removes marey's own Python calls too, and those
    /// inside them.
    pub(super) fn retain_spans(&mut self, (from_nanos, until_nanos): (i64, i64)) {
        for thread in self.threads.values_mut() {
            let mut marey_until_nanos = i64::MIN;
            thread.spans.retain(|span| {
                if !(from_nanos..=until_nanos).contains(&span.start_nanos) {
                    return false;
                }
                if span.owner == CallOwner::Marey {
                    marey_until_nanos = marey_until_nanos.max(span.end_nanos);
                }
                let is_python = !span.may_have_twin;
                let is_in_marey_call = is_python && span.end_nanos <= marey_until_nanos;
                span.owner == CallOwner::Program && !is_in_marey_call
            });
        }
    }

    /// Converts all times to the clock of the tables.
    pub(super) fn shift(&mut self, alignment: &Alignment) {
        for thread in self.threads.values_mut() {
            for span in &mut thread.spans {
                span.start_nanos = alignment.convert(span.start_nanos);
                span.end_nanos = alignment.convert(span.end_nanos);
            }
            for event in &mut thread.memory_events {
                event.time_nanos = alignment.convert(event.time_nanos);
            }
            for flow in &mut thread.flows {
                flow.time_nanos = alignment.convert(flow.time_nanos);
            }
        }
        for activity in &mut self.activities {
            activity.start_nanos = alignment.convert(activity.start_nanos);
        }
        let (first_nanos, last_nanos) = self.extent_nanos;
        self.extent_nanos = (alignment.convert(first_nanos), alignment.convert(last_nanos));
    }
}

/// Returns the operating system's ids of the threads of a process, by the id of the thread.
fn os_ids(reader: &Reader, pid: u64) -> HashMap<u32, u64> {
    let processes: Vec<u32> = reader
        .processes()
        .filter(|process| u64::try_from(process.pid) == Ok(pid))
        .map(|process| process.id)
        .collect();
    reader
        .threads()
        .filter(|thread| processes.contains(&thread.process_id))
        .filter_map(|thread| Some((thread.id, thread.os_id.try_into().ok()?)))
        .collect()
}
