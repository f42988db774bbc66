//! What spans and samples add up to, by place.

use std::collections::BTreeMap;
use std::mem;

use hashbrown::HashMap;
use marey_model::loss::LossCause;

use super::Assembler;
use super::processes::shifted;
use crate::StoreError;
use crate::rollup::{NO_PLACE, Rollup, Summand, Whole};
use crate::sums::{self, Whose};

/// Contexts of samples, times threads, that a flame graph shows at most: a file may name a deep stack
/// on many threads in a few bytes.
const MAX_SAMPLED_PLACES: usize = 1 << 20;

/// Places that sums are of, each a thread and a context, and what spans add up to there.
#[derive(Debug)]
pub(super) struct Places {
    /// The place of each context on the first thread that had it; [`NO_PLACE`] where none did.
    first: Vec<u32>,
    /// Places on other threads.
    others: HashMap<(u32, u32), u32>,
    /// Thread, context and name of each.
    all: Vec<[u32; 3]>,
    wholes: Vec<Whole>,
    rollup: Rollup,
}

impl Places {
    /// Of so many spans.
    pub(super) fn new(spans: u64) -> Self {
        let (first, others, all, wholes) = (Vec::new(), HashMap::new(), Vec::new(), Vec::new());
        Self { first, others, all, wholes, rollup: Rollup::new(0, spans) }
    }

    /// The place of a context on a thread, which has this name.
    pub(super) fn id(&mut self, thread: u32, context: u32, name: u32) -> u32 {
        let next = self.all.len() as u32;
        let at = context as usize;
        if self.first.len() <= at {
            self.first.resize(at + 1, NO_PLACE);
        }
        let place = match self.first[at] {
            NO_PLACE => {
                self.first[at] = next;
                next
            }
            first if self.all[first as usize][0] == thread => first,
            _ => *self.others.entry((thread, context)).or_insert(next),
        };
        if place == next {
            self.all.push([thread, context, name]);
            self.wholes.push(Whole::default());
            self.rollup.add_place();
        }
        place
    }

    /// Adds a span that is over; those inside it came before.
    pub(super) fn add(&mut self, span: &Summand) {
        self.wholes[span.place as usize].add(span.duration_nanos, span.children_nanos);
        self.rollup.add(span);
    }
}

impl Assembler {
    /// Writes the sums of spans and of samples.
    pub(super) fn write_sums(&mut self, mut places: Places, shift: i64) -> Result<(), StoreError> {
        self.add_samples(&mut places);
        let Places { all, wholes, rollup, .. } = places;
        for (&[thread, ..], _) in all.iter().zip(&wholes).filter(|(_, whole)| whole.is_saturated())
        {
            self.lose(self.threads[thread as usize].process, LossCause::Unsupported, 1);
        }
        let starts = shifted(&self.extents, shift);
        let whose = |place: u32| {
            let [thread, context, name] = all[place as usize];
            let (start_nanos, _) = starts[self.threads[thread as usize].process as usize];
            Whose { thread, context, name, start_nanos }
        };
        sums::write(&wholes, rollup, whose, None, &mut self.parts)
    }

    /// Adds what samples say: each counts in all contexts around it too, but for calls.
    fn add_samples(&mut self, places: &mut Places) {
        // A context has a larger number than the one around it, so each is complete when it is its turn.
        let mut waiting = BTreeMap::new();
        for ((thread, context), (count, nanos)) in mem::take(&mut self.sampled_sums) {
            waiting.insert((context, thread), [count, nanos, nanos]);
        }
        while let Some(((context, thread), [count, nanos, self_nanos])) = waiting.pop_last() {
            let Some(parent) = self.names.parent(context) else { continue };
            if places.all.len() >= MAX_SAMPLED_PLACES {
                let process = self.threads[thread as usize].process;
                self.lose(process, LossCause::Unsupported, 1);
                continue;
            }
            let place = places.id(thread, context, self.names.name(context));
            let sums = &mut places.wholes[place as usize].sums;
            sums.count = sums.count.saturating_add(count.round() as i64);
            sums.total_nanos = sums.total_nanos.saturating_add(nanos.round() as i64);
            sums.self_nanos = sums.self_nanos.saturating_add(self_nanos.round() as i64);
            let around = waiting.entry((parent, thread)).or_insert([0.0; 3]);
            around[0] += if self.sampled.counts_calls { 0.0 } else { count };
            around[1] += nanos;
        }
    }
}
