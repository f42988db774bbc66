//! Evented profiles: frames are opened and closed.

use std::collections::HashMap;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::row::Args;
use marey_store::{Assembler, Slice};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Unit;
use super::read::{Elements, File};
use super::sampled::SampleAdder;
use crate::shared::MAX_DEPTH;
use crate::shared::import::ReaderError;

/// The events of a profile that is imported. With a unit of time they become spans, otherwise
/// samples of the intervals between them.
pub(super) struct Evented {
    thread: u32,
    unit: Unit,
    open: Vec<OpenFrame>,
    /// How often each frame is open.
    open_counts: HashMap<u32, usize>,
    /// How many frames have been opened.
    opened: u64,
    /// The time of the last event.
    last_nanos: i64,
    /// The position of the last event, if the unit is not a time.
    last_value: Option<f64>,
    /// Converts intervals to samples.
    sample_adder: Option<SampleAdder>,
}

struct OpenFrame {
    frame: u32,
    name_id: u32,
    context: u32,
    start_nanos: i64,
    order: u64,
}

#[derive(Deserialize)]
struct Event<'e> {
    #[serde(rename = "type")]
    kind: Kind,
    frame: u32,
    #[serde(borrow)]
    at: &'e RawValue,
}

#[derive(Deserialize)]
enum Kind {
    #[serde(rename = "O")]
    Open,
    #[serde(rename = "C")]
    Close,
}

impl Evented {
    pub(super) fn new(thread: u32, unit: Unit, start: Option<&str>) -> Self {
        Self {
            thread,
            unit,
            open: Vec::new(),
            open_counts: HashMap::new(),
            opened: 0,
            last_nanos: i64::MIN,
            last_value: start.and_then(|start| start.parse().ok()),
            sample_adder: None,
        }
    }

    fn event(&mut self, file: &mut File, event: &Event) -> Result<(), ReaderError> {
        let Some(name_id) = file.name(event.frame) else {
            file.lose(LossCause::Unreadable, 1, format_args!("there is no frame {}", event.frame));
            return Ok(());
        };
        if !self.advance_to(file, event.at.get())? {
            return Ok(());
        }
        match event.kind {
            Kind::Open => {
                let parent = self.context();
                let is_too_deep = self.open.len() >= MAX_DEPTH;
                if is_too_deep {
                    let cause = format_args!("a frame is inside {MAX_DEPTH} other frames");
                    file.lose(LossCause::Unsupported, 1, cause);
                }
                let context = match self.unit {
                    // The assembler derives contexts of spans.
                    Unit::Time(_) => Assembler::ROOT,
                    _ if is_too_deep => parent,
                    _ => file.import.run.context(parent, NodeKind::Frame, name_id),
                };
                let Self { opened: order, last_nanos: start_nanos, .. } = *self;
                self.open.push(OpenFrame {
                    frame: event.frame,
                    name_id,
                    context,
                    start_nanos,
                    order,
                });
                *self.open_counts.entry(event.frame).or_default() += 1;
                self.opened += 1;
                Ok(())
            }
            Kind::Close => self.close(file, event.frame),
        }
    }

    /// Advances to the position of an event. A position before the last event is moved to it.
    /// Returns `false` if the position cannot be read.
    fn advance_to(&mut self, file: &mut File, at: &str) -> Result<bool, ReaderError> {
        let is_earlier = if let Unit::Time(power) = self.unit {
            let Some(nanos) = file.nanos(at, power) else { return Ok(lose_position(file, at)) };
            let is_earlier = nanos < self.last_nanos;
            self.last_nanos = self.last_nanos.max(nanos);
            is_earlier
        } else {
            let Ok(value) = at.parse::<f64>() else { return Ok(lose_position(file, at)) };
            let last = self.last_value.unwrap_or(value);
            self.last_value = Some(last.max(value));
            if value > last {
                self.add_interval(file, value - last)?;
            }
            value < last
        };
        if is_earlier {
            let cause = "an event is earlier than the event before it, and is moved to that time";
            file.lose(LossCause::Unreadable, 1, cause);
        }
        Ok(true)
    }

    /// Closes a frame, and frames inside it that the file has left open.
    fn close(&mut self, file: &mut File, frame: u32) -> Result<(), ReaderError> {
        let is_open = self.open_counts.get(&frame).is_some_and(|&count| count > 0);
        if !is_open {
            let cause = format_args!("frame {frame} is closed but is not open");
            file.lose(LossCause::UnmatchedExit, 1, cause);
            return Ok(());
        }
        while let Some(open) = self.open.pop() {
            let is_wanted = open.frame == frame;
            self.end_frame(file, &open, false)?;
            if is_wanted {
                return Ok(());
            }
            let cause = format_args!("frame {frame} is closed before a frame inside it");
            file.lose(LossCause::Unclosed, 1, cause);
        }
        Ok(())
    }

    fn end_frame(
        &mut self,
        file: &mut File,
        open: &OpenFrame,
        is_open: bool,
    ) -> Result<(), ReaderError> {
        if let Some(count) = self.open_counts.get_mut(&open.frame) {
            *count -= 1;
        }
        // The enclosing frames are still open.
        if !matches!(self.unit, Unit::Time(_)) || self.open.len() >= MAX_DEPTH {
            return Ok(());
        }
        let OpenFrame { name_id, start_nanos, order, .. } = *open;
        Ok(file.import.run.add_slice(&Slice {
            thread_id: self.thread,
            start_nanos,
            duration_nanos: self.last_nanos.saturating_sub(start_nanos),
            order,
            kind: NodeKind::Frame,
            name_id,
            step: None,
            is_open,
            category_id: None,
            correlation_id: None,
            external_id: None,
            args: Args::default(),
        })?)
    }

    /// Adds the interval since the last event as a sample.
    fn add_interval(&mut self, file: &mut File, value: f64) -> Result<(), ReaderError> {
        let Self { thread, unit, .. } = *self;
        let context = self.context();
        let sample_adder =
            self.sample_adder.get_or_insert_with(|| SampleAdder::new(file, thread, unit));
        sample_adder.add(file, context, None, MetricValue::Float(value))
    }

    fn context(&self) -> u32 {
        self.open.last().map_or(Assembler::ROOT, |open| open.context)
    }
}

impl Elements for Evented {
    fn add(&mut self, file: &mut File, element: &RawValue) -> Result<(), ReaderError> {
        if let Ok(event) = serde_json::from_str(element.get()) {
            return self.event(file, &event);
        }
        file.lose(LossCause::Unreadable, 1, "an event has no valid type, frame or position");
        Ok(())
    }

    fn end(&mut self, file: &mut File) -> Result<(), ReaderError> {
        while let Some(open) = self.open.pop() {
            self.end_frame(file, &open, true)?;
        }
        Ok(())
    }
}

fn lose_position(file: &mut File, at: &str) -> bool {
    let at: String = at.chars().take(40).collect();
    file.lose(LossCause::Unreadable, 1, format_args!("an event has the invalid position `{at}`"));
    false
}
