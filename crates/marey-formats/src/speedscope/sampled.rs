//! Reads sampled profiles, which have a list of stacks and a list of their weights.

use std::mem;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::row::Sample;
use marey_store::{Assembler, Sampled};
use serde_json::value::RawValue;

use super::Unit;
use super::read::{FileReader, ListVisitor};
use crate::shared::MAX_DEPTH;
use crate::shared::decimal;
use crate::shared::import::ReaderError;

/// The stacks of a profile, until their weights are read, which are a separate list. Each takes
/// eight bytes. `None` is a stack that could not be read.
#[derive(Default)]
pub(super) struct Samples(Vec<Option<u32>>);

impl Samples {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts the samples without a weight.
    pub(super) fn lose_unweighted(&mut self, file: &mut FileReader) {
        let readable = mem::take(&mut self.0).into_iter().flatten().count() as u64;
        if readable > 0 {
            file.lose(LossCause::Unreadable, readable, "a sample has no weight");
        }
    }
}

impl ListVisitor for &mut Samples {
    fn add(&mut self, file: &mut FileReader, element: &RawValue) -> Result<(), ReaderError> {
        let stack = serde_json::from_str::<Vec<u32>>(element.get()).ok();
        if stack.as_ref().is_some_and(|stack| stack.len() > MAX_DEPTH) {
            let cause = format_args!("the stack has more than {MAX_DEPTH} frames");
            file.lose(LossCause::Unsupported, 1, cause);
            self.0.push(None);
            return Ok(());
        }
        let context = stack.and_then(|stack| {
            let mut frames = stack.into_iter();
            frames.try_fold(Assembler::ROOT, |context, frame| {
                let name_id = file.name_id(frame)?;
                Some(file.import.run.context_id(context, NodeKind::Frame, name_id))
            })
        });
        if context.is_none() {
            file.lose(LossCause::Unreadable, 1, "a sample is not a list of existing frames");
        }
        self.0.push(context);
        Ok(())
    }

    fn end(&mut self, _file: &mut FileReader) -> Result<(), ReaderError> {
        Ok(())
    }
}

/// The weights of samples.
pub(super) struct Weights {
    samples: std::vec::IntoIter<Option<u32>>,
    sample_adder: SampleAdder,
    unit: Unit,
    /// The start of the next sample, if weights are times.
    next_nanos: Option<i64>,
}

impl Weights {
    pub(super) fn new(
        file: &mut FileReader,
        thread_id: u32,
        unit: Unit,
        start: Option<&str>,
        samples: &mut Samples,
    ) -> Self {
        let next_nanos = match unit {
            Unit::Time(power) => file.nanos(start.unwrap_or("0"), power),
            _ => None,
        };
        let samples = mem::take(&mut samples.0).into_iter();
        Self { samples, sample_adder: SampleAdder::new(file, thread_id, unit), unit, next_nanos }
    }

    fn parse_weight(&self, weight: &str) -> Option<MetricValue> {
        if let Unit::Time(power) = self.unit {
            return decimal::parse_scaled(weight, power).map(MetricValue::Int);
        }
        let integer = weight.parse().map(MetricValue::Int);
        integer.ok().or_else(|| weight.parse().map(MetricValue::Float).ok())
    }
}

impl ListVisitor for Weights {
    fn add(&mut self, file: &mut FileReader, element: &RawValue) -> Result<(), ReaderError> {
        let Some(context) = self.samples.next() else {
            file.lose(LossCause::Unreadable, 1, "a weight without a sample");
            return Ok(());
        };
        let Some(value) = self.parse_weight(element.get()) else {
            file.lose(LossCause::Unreadable, 1, "a weight is not a valid number of its unit");
            return Ok(());
        };
        let time_nanos = self.next_nanos;
        if let (Some(next_nanos), MetricValue::Int(nanos)) = (&mut self.next_nanos, &value) {
            *next_nanos = next_nanos.saturating_add(*nanos);
        }
        match context {
            Some(context) => self.sample_adder.add(file, context, time_nanos, value),
            None => Ok(()),
        }
    }

    fn end(&mut self, file: &mut FileReader) -> Result<(), ReaderError> {
        Samples(self.samples.by_ref().collect()).lose_unweighted(file);
        Ok(())
    }
}

/// Adds weights as values of samples.
pub(super) struct SampleAdder {
    thread_id: u32,
    name_id: u32,
    shown: Sampled,
}

impl SampleAdder {
    pub(super) fn new(file: &mut FileReader, thread_id: u32, unit: Unit) -> Self {
        let name_id = file.import.run.text_id(unit.value_name());
        let shown = match unit {
            Unit::Time(_) => Sampled { nanos_name_id: Some(name_id), ..Sampled::default() },
            Unit::None => Sampled { count_name_id: Some(name_id), ..Sampled::default() },
            Unit::Bytes => Sampled::default(),
        };
        Self { thread_id, name_id, shown }
    }

    pub(super) fn add(
        &self,
        file: &mut FileReader,
        context_id: u32,
        time_nanos: Option<i64>,
        value: MetricValue,
    ) -> Result<(), ReaderError> {
        let value = match value {
            MetricValue::Float(real) if real.fract() == 0.0 && real.abs() < 1e15 => {
                MetricValue::Int(real as i64)
            }
            value => value,
        };
        let run = &mut file.import.run;
        run.show_samples(self.shown);
        let thread_id = Some(self.thread_id);
        let row = Sample::new(file.process_id, context_id, self.name_id, value);
        Ok(run.add_sample(&Sample { thread_id, time_nanos, ..row })?)
    }
}
