//! The messages of an event file. The field numbers are those of `TensorFlow` (`event.proto`,
//! `summary.proto`), and only fields that are written are declared.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    /// In seconds since 1970.
    #[prost(double, tag = "1")]
    pub(super) wall_time_secs: f64,
    #[prost(int64, tag = "2")]
    pub(super) step: i64,
    #[prost(oneof = "Payload", tags = "3, 5")]
    pub(super) payload: Option<Payload>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Payload {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub(super) value: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Value {
    #[prost(string, tag = "1")]
    pub(super) tag: String,
    #[prost(oneof = "Content", tags = "2, 4")]
    pub(super) content: Option<Content>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Content {
    #[prost(float, tag = "2")]
    SimpleValue(f32),
    #[prost(message, tag = "4")]
    Image(Image),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Image {
    #[prost(int32, tag = "1")]
    pub(super) height: i32,
    #[prost(int32, tag = "2")]
    pub(super) width: i32,
    #[prost(int32, tag = "3")]
    pub(super) colorspace: i32,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) encoded_image_string: Vec<u8>,
}
