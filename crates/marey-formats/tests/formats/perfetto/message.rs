//! Hand-written protobuf messages, so that the reader is tested against the format instead of our
//! writer.

/// A message that is being built.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    /// Appends a number.
    pub(crate) fn int(mut self, field: u32, value: u64) -> Self {
        varint(u64::from(field) << 3, &mut self.0);
        varint(value, &mut self.0);
        self
    }

    /// Appends bytes, such as those of a text.
    pub(crate) fn bytes(mut self, field: u32, value: impl AsRef<[u8]>) -> Self {
        varint(u64::from(field) << 3 | 2, &mut self.0);
        varint(value.as_ref().len() as u64, &mut self.0);
        self.0.extend(value.as_ref());
        self
    }

    /// Appends a message.
    pub(crate) fn message(self, field: u32, value: Self) -> Self {
        self.bytes(field, value.0)
    }
}

/// Returns an empty message.
pub(crate) fn message() -> Message {
    Message::default()
}

/// Returns a trace of packets.
pub(crate) fn trace(packets: impl IntoIterator<Item = Message>) -> Vec<u8> {
    packets.into_iter().fold(message(), |trace, packet| trace.message(1, packet)).0
}

/// Returns a packet with an event on a track. `kind` is the number of the event type in the schema.
pub(crate) fn event(time: u64, kind: u64, track: u64, name: &str) -> Message {
    let event = message().int(9, kind).int(11, track).bytes(23, name);
    message().int(8, time).message(11, event)
}

/// Returns a packet that declares a thread's track.
pub(crate) fn thread(track: u64, pid: u64, tid: u64) -> Message {
    let thread = message().int(1, pid).int(2, tid);
    message().message(60, message().int(1, track).message(4, thread))
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
