//! Adds the call stacks of events, and the samples of sampling profilers.

use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::row::Sample;
use marey_store::{Assembler, Sampled, StoreError};

use super::EventConverter;
use super::annotations::Extras;
use super::event::EventHeader;
use super::sequence::Sequence;
use crate::perfetto::message::{PerfSample, StreamingProfilePacket, TrackEvent};
use crate::shared::MAX_DEPTH;

impl EventConverter<'_> {
    /// Returns the call stack of an event as a context.
    pub(super) fn stack_context(&mut self, sequence: &Sequence, event: &TrackEvent) -> Option<u32> {
        if let Some(stack) = &event.callstack {
            if stack.frames.len() > MAX_DEPTH {
                self.lose_deep_stack();
                return None;
            }
            let mut context_id = Assembler::ROOT;
            for frame in &stack.frames {
                let function = frame.function_name.as_deref().unwrap_or_default();
                let line = frame.line_number.unwrap_or(0);
                let name = match &frame.source_file {
                    Some(file) => format!("{file}:{line}@{function}"),
                    None => function.to_owned(),
                };
                let name_id = self.import.run.text_id(&name);
                context_id = self.import.run.context_id(context_id, NodeKind::Frame, name_id);
            }
            return Some(context_id);
        }
        self.interned_stack_context(sequence, event.callstack_iid?)
    }

    fn interned_stack_context(&mut self, sequence: &Sequence, iid: u64) -> Option<u32> {
        let stack = sequence.interned().stacks.get(&iid).copied();
        match stack {
            Some(Some(_context)) => {}
            Some(None) => self.lose_deep_stack(),
            None => self.lose(LossCause::Unreadable, "a call stack that is not in the file"),
        }
        stack.flatten()
    }

    fn lose_deep_stack(&mut self) {
        let cause = format_args!("a call stack of more than {MAX_DEPTH} frames");
        self.lose(LossCause::Unsupported, cause);
    }

    /// Adds the call stack of an event, if it has one, as a sample.
    pub(super) fn add_stack_sample(
        &mut self,
        sequence: &Sequence,
        header: &EventHeader,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        let Some(context_id) = self.stack_context(sequence, event) else { return Ok(()) };
        let (name, value) = match event.callstack_weight {
            Some(weight) => ("callstack_weight", MetricValue::Float(weight)),
            None => ("callstacks", MetricValue::Int(1)),
        };
        let name_id = self.import.run.text_id(name);
        self.import.run.add_sample(&Sample {
            thread_id: header.owner.enclosing_thread_id,
            time_nanos: Some(header.time_nanos),
            ..Sample::new(header.owner.process_id, context_id, name_id, value)
        })
    }

    /// Adds a sample from a file that marey wrote.
    pub(super) fn add_marey_sample(
        &mut self,
        sequence: &Sequence,
        header: &EventHeader,
        event: &TrackEvent,
        extras: &Extras,
        value: MetricValue,
        args: &mut NewArgs,
    ) -> Result<(), StoreError> {
        self.select_samples();
        let context_id = self.stack_context(sequence, event).unwrap_or(Assembler::ROOT);
        let args = self.import.run.args(args)?;
        self.import.run.add_sample(&Sample {
            process_id: header.owner.process_id,
            thread_id: header.owner.enclosing_thread_id,
            context_id,
            name_id: header.name_id,
            time_nanos: (!extras.flag("has_no_time")).then_some(header.time_nanos),
            value,
            args,
        })
    }

    pub(super) fn add_perf_sample(
        &mut self,
        sequence: &Sequence,
        time_nanos: Option<i64>,
        sample: &PerfSample,
    ) -> Result<(), StoreError> {
        let Some(iid) = sample.callstack_iid else {
            self.lose(LossCause::Unsupported, "a sample without a call stack");
            return Ok(());
        };
        let ids = sample.pid.zip(sample.tid);
        let thread_id = ids.and_then(|(pid, tid)| {
            self.tracks.thread(pid.try_into().ok()?, tid.into(), self.import)
        });
        let Some(thread_id) = thread_id else {
            self.lose(LossCause::Unsupported, "a sample without a thread");
            return Ok(());
        };
        let mut args = NewArgs::default();
        if let Some(count) = sample.timebase_count {
            args.json("timebase_count", &count.to_string());
        }
        let Some(context_id) = self.interned_stack_context(sequence, iid) else { return Ok(()) };
        self.add_sample(thread_id, context_id, time_nanos, &mut args)
    }

    /// Adds the samples of the thread that writes the sequence. Timestamps are relative to the
    /// previous sample.
    pub(super) fn add_profile(
        &mut self,
        sequence: &Sequence,
        start_nanos: Option<i64>,
        profile: &StreamingProfilePacket,
    ) -> Result<(), StoreError> {
        let Some(thread_id) = sequence.thread_id else {
            self.lose(LossCause::Unsupported, "samples without a thread");
            return Ok(());
        };
        let mut time_nanos = start_nanos;
        let deltas = profile.timestamp_deltas_us.iter().copied().chain(std::iter::repeat(0));
        for (&iid, delta_us) in profile.callstack_iids.iter().zip(deltas) {
            let delta_nanos = delta_us.saturating_mul(1000);
            time_nanos = time_nanos.map(|nanos| nanos.saturating_add(delta_nanos));
            if let Some(context_id) = self.interned_stack_context(sequence, iid) {
                self.add_sample(thread_id, context_id, time_nanos, &mut NewArgs::default())?;
            }
        }
        Ok(())
    }

    /// Adds one sample of a stack.
    fn add_sample(
        &mut self,
        thread_id: u32,
        context_id: u32,
        time_nanos: Option<i64>,
        args: &mut NewArgs,
    ) -> Result<(), StoreError> {
        self.select_samples();
        let process_id = self.tracks.thread_owner(thread_id, self.import).process_id;
        let name_id = self.import.run.text_id("samples");
        let args = self.import.run.args(args)?;
        self.import.run.add_sample(&Sample {
            thread_id: Some(thread_id),
            time_nanos,
            args,
            ..Sample::new(process_id, context_id, name_id, MetricValue::Int(1))
        })
    }

    /// Selects the samples that flame graphs show, before the first one is added.
    fn select_samples(&mut self) {
        if !self.has_selected_samples {
            self.has_selected_samples = true;
            let run = &mut self.import.run;
            let count_name_id = Some(run.text_id("samples"));
            let nanos_name_id = Some(run.text_id("cpu (ns)"));
            run.show_samples(Sampled { count_name_id, nanos_name_id, counts_calls: false });
        }
    }
}
