//! Writes the messages of an event file.

use std::io::{self, Write};

use prost::Message;

use super::flame::Picture;
use super::message::{Content, Event, Image, Payload, Summary, Value};
use super::record;

/// The version in the first record of a file.
const VERSION: &str = "brain.Event:2";

/// The number of colour channels: red, green and blue.
const RGB_CHANNELS: i32 = 3;

/// An event file that is being written.
pub(super) struct Events<'o> {
    out: &'o mut dyn Write,
    message: Vec<u8>,
    event_count: u64,
}

impl<'o> Events<'o> {
    pub(super) fn begin(out: &'o mut dyn Write, start_nanos: i64) -> io::Result<Self> {
        let mut events = Self { out, message: Vec::new(), event_count: 0 };
        events.write(start_nanos, 0, Payload::FileVersion(VERSION.to_owned()))?;
        Ok(events)
    }

    /// Whether the file has no event besides the version.
    pub(super) const fn is_empty(&self) -> bool {
        self.event_count == 1
    }

    pub(super) fn write_scalar(
        &mut self,
        tag: String,
        step: i64,
        time_nanos: i64,
        value: f64,
    ) -> io::Result<()> {
        self.write_value(tag, step, time_nanos, Content::SimpleValue(value as f32))
    }

    pub(super) fn write_image(
        &mut self,
        tag: &str,
        time_nanos: i64,
        picture: Picture,
    ) -> io::Result<()> {
        let Picture { width, height, png } = picture;
        let image = Image { height, width, colorspace: RGB_CHANNELS, encoded_image_string: png };
        self.write_value(tag.to_owned(), 0, time_nanos, Content::Image(image))
    }

    fn write_value(
        &mut self,
        tag: String,
        step: i64,
        time_nanos: i64,
        content: Content,
    ) -> io::Result<()> {
        let value = vec![Value { tag, content: Some(content) }];
        self.write(time_nanos, step, Payload::Summary(Summary { value }))
    }

    fn write(&mut self, time_nanos: i64, step: i64, payload: Payload) -> io::Result<()> {
        let event = Event { wall_time_secs: time_nanos as f64 / 1e9, step, payload: Some(payload) };
        self.message.clear();
        event.encode(&mut self.message).map_err(io::Error::other)?;
        self.event_count += 1;
        record::write(&self.message, self.out)
    }
}
