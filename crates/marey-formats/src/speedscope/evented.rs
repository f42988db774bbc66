//! Reads evented profiles, whose events open and close frames.

use std::collections::HashMap;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::{Assembler, Slice};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Unit;
use super::read::{FileReader, ListVisitor};
use super::sampled::SampleAdder;
use crate::shared::MAX_DEPTH;
use crate::shared::import::ReaderError;

/// The events of a profile that is imported. In a unit of time they become spans. In another unit,
/// the intervals between them become samples.
pub(super) struct Evented {
    thread_id: u32,
    unit: Unit,
    open_frames: Vec<OpenFrame>,
    /// Number of times that each frame is open.
    open_counts: HashMap<u32, usize>,
    /// Number of frames that were opened so far.
    opened_count: u64,
    /// The time of the last event.
    last_nanos: i64,
    /// The position of the last event, if the unit is not a time.
    last_position: Option<f64>,
    /// Converts intervals to samples.
    sample_adder: Option<SampleAdder>,
}

struct OpenFrame {
    frame: u32,
    name_id: u32,
    context_id: u32,
    start_nanos: i64,
    order: u64,
}

#[derive(Deserialize)]
struct Event<'e> {
    #[serde(rename = "type")]
    kind: EventKind,
    frame: u32,
    #[serde(borrow)]
    at: &'e RawValue,
}

#[derive(Deserialize)]
enum EventKind {
    #[serde(rename = "O")]
    Open,
    #[serde(rename = "C")]
    Close,
}

impl Evented {
    pub(super) fn new(thread_id: u32, unit: Unit, start: Option<&str>) -> Self {
        Self {
            thread_id,
            unit,
            open_frames: Vec::new(),
            open_counts: HashMap::new(),
            opened_count: 0,
            last_nanos: i64::MIN,
            last_position: start.and_then(|start| start.parse().ok()),
            sample_adder: None,
        }
    }

    fn add_event(&mut self, file: &mut FileReader, event: &Event) -> Result<(), ReaderError> {
        let Some(name_id) = file.name_id(event.frame) else {
            file.lose(LossCause::Unreadable, 1, format_args!("there is no frame {}", event.frame));
            return Ok(());
        };
        if !self.advance_to(file, event.at.get())? {
            return Ok(());
        }
        match event.kind {
            EventKind::Open => {
                let parent_context_id = self.open_context();
                let is_too_deep = self.open_frames.len() >= MAX_DEPTH;
                if is_too_deep {
                    let cause = format_args!("a frame is inside {MAX_DEPTH} other frames");
                    file.lose(LossCause::Unsupported, 1, cause);
                }
                let context_id = match self.unit {
                    // The assembler derives the contexts of spans itself.
                    Unit::Time(_) => Assembler::ROOT,
                    _ if is_too_deep => parent_context_id,
                    _ => file.import.run.context_id(parent_context_id, NodeKind::Frame, name_id),
                };
                let Self { opened_count: order, last_nanos: start_nanos, .. } = *self;
                self.open_frames.push(OpenFrame {
                    frame: event.frame,
                    name_id,
                    context_id,
                    start_nanos,
                    order,
                });
                *self.open_counts.entry(event.frame).or_default() += 1;
                self.opened_count += 1;
                Ok(())
            }
            EventKind::Close => self.close_frame(file, event.frame),
        }
    }

    /// Advances to the position of an event. If the last event is at a later position,
    /// that position is used. Returns `false` if the position cannot be read.
    fn advance_to(&mut self, file: &mut FileReader, position: &str) -> Result<bool, ReaderError> {
        let is_earlier = if let Unit::Time(power) = self.unit {
            let Some(nanos) = file.nanos(position, power) else {
                return Ok(lose_invalid_position(file, position));
            };
            let is_earlier = nanos < self.last_nanos;
            self.last_nanos = self.last_nanos.max(nanos);
            is_earlier
        } else {
            let Ok(value) = position.parse::<f64>() else {
                return Ok(lose_invalid_position(file, position));
            };
            let last_position = self.last_position.unwrap_or(value);
            self.last_position = Some(last_position.max(value));
            if value > last_position {
                self.add_interval(file, value - last_position)?;
            }
            value < last_position
        };
        if is_earlier {
            let cause = "an event is earlier than the event before it, and is moved to that time";
            file.lose(LossCause::Unreadable, 1, cause);
        }
        Ok(true)
    }

    /// Closes a frame, and the frames inside it that the file has left open.
    fn close_frame(&mut self, file: &mut FileReader, frame_index: u32) -> Result<(), ReaderError> {
        let is_open = self.open_counts.get(&frame_index).is_some_and(|&count| count > 0);
        if !is_open {
            let cause = format_args!("frame {frame_index} is closed but is not open");
            file.lose(LossCause::UnmatchedExit, 1, cause);
            return Ok(());
        }
        while let Some(open_frame) = self.open_frames.pop() {
            let is_closed_frame = open_frame.frame == frame_index;
            self.end_frame(file, &open_frame, false)?;
            if is_closed_frame {
                return Ok(());
            }
            let cause = format_args!("frame {frame_index} is closed before a frame inside it");
            file.lose(LossCause::Unclosed, 1, cause);
        }
        Ok(())
    }

    fn end_frame(
        &mut self,
        file: &mut FileReader,
        open_frame: &OpenFrame,
        is_open: bool,
    ) -> Result<(), ReaderError> {
        if let Some(count) = self.open_counts.get_mut(&open_frame.frame) {
            *count -= 1;
        }
        // The enclosing frames are still open.
        if !matches!(self.unit, Unit::Time(_)) || self.open_frames.len() >= MAX_DEPTH {
            return Ok(());
        }
        let OpenFrame { name_id, start_nanos, order, .. } = *open_frame;
        let duration_nanos = self.last_nanos.saturating_sub(start_nanos);
        let kind = NodeKind::Frame;
        let slice = Slice::new(self.thread_id, kind, name_id, start_nanos, duration_nanos);
        Ok(file.import.run.add_slice(&Slice { order, is_open, ..slice })?)
    }

    /// Adds the interval since the last event as a sample.
    fn add_interval(&mut self, file: &mut FileReader, value: f64) -> Result<(), ReaderError> {
        let Self { thread_id, unit, .. } = *self;
        let context_id = self.open_context();
        let sample_adder =
            self.sample_adder.get_or_insert_with(|| SampleAdder::new(file, thread_id, unit));
        sample_adder.add(file, context_id, None, MetricValue::Float(value))
    }

    fn open_context(&self) -> u32 {
        self.open_frames.last().map_or(Assembler::ROOT, |open| open.context_id)
    }
}

impl ListVisitor for Evented {
    fn add(&mut self, file: &mut FileReader, element: &RawValue) -> Result<(), ReaderError> {
        if let Ok(event) = serde_json::from_str(element.get()) {
            return self.add_event(file, &event);
        }
        file.lose(LossCause::Unreadable, 1, "an event has no valid type, frame or position");
        Ok(())
    }

    fn end(&mut self, file: &mut FileReader) -> Result<(), ReaderError> {
        while let Some(open) = self.open_frames.pop() {
            self.end_frame(file, &open, true)?;
        }
        Ok(())
    }
}

fn lose_invalid_position(file: &mut FileReader, position: &str) -> bool {
    let shown: String = position.chars().take(40).collect();
    file.lose(
        LossCause::Unreadable,
        1,
        format_args!("an event has the invalid position `{shown}`"),
    );
    false
}
