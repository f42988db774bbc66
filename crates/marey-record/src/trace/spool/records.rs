//! Records that do not come from the threads' logs, as frames of the spool.

use super::Spool;
use crate::api::{Collective, CounterSample, LineVariables, StackSample};
use crate::clock;
use crate::device::{JoinedActivity, LaunchingThreads};
use crate::losses;
use crate::thread::ThreadTree;
use crate::trace::activities::location_without_launch;
use crate::trace::clock::TraceClock;
use crate::trace::texts::SpoolTexts;
use crate::trace::thread::SpoolOutput;
use marey_model::loss::LossCause;
use marey_model::spool::{self, Detail, SampleCause, SpoolFrame};

impl Spool {
    /// Adds activities, whose details are ranges of `details`.
    pub(in crate::trace) fn add_activities(
        &mut self,
        threads: &LaunchingThreads,
        joined: &[JoinedActivity],
        details: &[(Detail, u64)],
    ) {
        let start_ticks = clock::ticks();
        if !self.output.buffer.has_room() {
            losses::add(LossCause::Spool, joined.len() as u64);
            return;
        }
        let mut locations = Vec::new();
        for activity in joined {
            let activity_details = details.get(activity.details.clone()).unwrap_or_default();
            let launch = activity
                .launched
                .and_then(|(thread, launch)| Some((threads.tree(thread)?, launch)));
            locations.clear();
            match launch {
                Some((tree, launch)) => {
                    let (thread, output) = self.thread_writer(tree);
                    thread.launch_locations(
                        tree,
                        &launch,
                        activity.site_number,
                        output,
                        &mut locations,
                    );
                }
                None => locations.push(location_without_launch()),
            }
            self.activities.add(activity, activity_details, &locations, &mut self.output);
        }
        let SpoolOutput { texts, buffer, .. } = &mut self.output;
        self.activities.write_batch(texts, buffer);
        self.flushing_nanos += clock::nanos_since(start_ticks);
    }

    /// Writes samples of counters.
    pub(in crate::trace) fn write_counters(&mut self, samples: &[CounterSample]) {
        self.write_records(samples.len(), |clock, texts| {
            let counters = samples.iter().map(|sample| spool::Counter {
                time_nanos: clock.nanos_at(sample.time_ticks),
                name_id: texts.scope_name_id(sample.name_id),
                device: sample.device,
                value: sample.value,
            });
            SpoolFrame::Counters(counters.collect())
        });
    }

    /// Writes samples of call stacks, whose nodes are in `tree`.
    pub(in crate::trace) fn write_samples(
        &mut self,
        tree: &ThreadTree,
        samples: &[StackSample],
        cause: SampleCause,
    ) {
        let now_ticks = clock::ticks();
        let (thread, output) = self.thread_writer(tree);
        thread.write_samples(tree, samples, cause, now_ticks, output);
    }

    /// Writes the values of watched variables when a line began.
    pub(in crate::trace) fn write_variables(&mut self, line: &LineVariables<'_>) {
        self.write_records(line.variables.len(), |clock, texts| {
            let time_nanos = clock.nanos_at(clock::ticks());
            let thread_name_id = texts.scope_name_id(line.thread_name_id);
            let (file_id, function_id) =
                (texts.scope_name_id(line.file_id), texts.scope_name_id(line.function_id));
            let variables = line.variables.iter().map(|variable| spool::Variable {
                time_nanos,
                os_id: line.os_id,
                thread_name_id,
                file_id,
                function_id,
                line: line.line,
                name_id: texts.scope_name_id(variable.name_id),
                type_id: texts.scope_name_id(variable.type_id),
                value: variable.value.clone(),
            });
            SpoolFrame::Variables(variables.collect())
        });
    }

    /// Writes collectives, whose texts are interned name ids.
    pub(in crate::trace) fn write_collectives(&mut self, collectives: Vec<Collective>) {
        self.write_records(collectives.len(), |_, texts| {
            let collectives = collectives
                .into_iter()
                .map(|collective| collective.with_text_ids(|name_id| texts.scope_name_id(name_id)));
            SpoolFrame::Collectives(collectives.collect())
        });
    }

    /// Writes a frame of this number of records, after the texts that it refers to. If the buffer
    /// has no room, counts the records as lost.
    fn write_records(
        &mut self,
        count: usize,
        frame: impl FnOnce(&TraceClock, &mut SpoolTexts) -> SpoolFrame,
    ) {
        let SpoolOutput { clock, texts, buffer } = &mut self.output;
        let count = count as u64;
        if !buffer.has_room() {
            losses::add(LossCause::Spool, count);
            return;
        }
        let frame = frame(clock, texts);
        texts.take_unwritten().for_each(|texts| buffer.push(&texts));
        buffer.push_entries(&frame, count);
    }
}
