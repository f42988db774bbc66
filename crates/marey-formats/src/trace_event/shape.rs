//! Learns the shapes of events, to find the ranges of an event faster than the lexer.
//!
//! A program writes the same keys in the same order with the same white space, again and again. So
//! the bytes between the values are compared with those of an earlier event, and not parsed.

use super::bytes::{end_of_plain_text, plain_number_len};
use super::event::{EventRanges, Members, Role};
use super::lexer::{Lexer, Member, TextRange};

/// The maximum number of shapes. An event that matches none is compared with all, which costs time.
const MAX_SHAPES: usize = 32;

/// The maximum size of the bytes between the values of a shape.
const MAX_SHAPE_BYTES: usize = 2048;

/// The number by which misses exceed hits when comparisons pause. The pause is a number of events
/// that doubles each time. A comparison without success is slower than the lexer.
const MAX_MISSES: u32 = 128;
const FIRST_PAUSE: u64 = 1024;

/// The shapes of the events so far.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    retained: Vec<Shape>,
    /// The shape of the last event that matched.
    last_index: usize,
    /// Number of shapes that were learned, including forgotten ones. It is the number of the next
    /// shape.
    learned_count: u32,
    /// Misses minus hits.
    misses: u32,
    /// Number of further events to parse without a comparison.
    paused_events: u64,
    /// Length of the last pause.
    last_pause: u64,
}

/// The bytes before, between and after the values of an event.
#[derive(Debug)]
struct Shape {
    /// Its number.
    number: u32,
    /// All constant bytes, concatenated.
    text: Vec<u8>,
    slots: Vec<ShapeSlot>,
    /// Index of the shape that followed the last event of this one.
    next_index: usize,
}

/// A value, with the constant bytes before it.
#[derive(Debug)]
struct ShapeSlot {
    /// End of the constant bytes in the text of the shape.
    end: usize,
    kind: ValueKind,
    target: MemberTarget,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    /// A constant value, which is the last `n` of the constant bytes.
    Constant(usize),
    /// A string, whose quotes belong to the constant bytes.
    Text,
    /// A number in the usual notation.
    Number,
    /// Any other value.
    Other,
}

/// Where a value is stored. Keys are ranges of the constant bytes.
#[derive(Clone, Copy, Debug)]
enum MemberTarget {
    Standard(Role),
    Arg(TextRange),
    Extra(TextRange),
}

impl Shapes {
    /// Finds the ranges of the event at the start of `bytes`. Returns its length and the number of
    /// its shape if the shape is known and the event is complete.
    pub(super) fn match_event(
        &mut self,
        bytes: &[u8],
        ranges: &mut EventRanges,
        members: &mut Members,
    ) -> Option<(usize, u32)> {
        if self.paused_events > 0 {
            self.paused_events -= 1;
            return None;
        }
        let likely_index = self.retained.get(self.last_index)?.next_index;
        let other_indexes = (0..self.retained.len()).filter(|shape| *shape != likely_index);
        let counts_before = members.counts();
        for index in std::iter::once(likely_index).chain(other_indexes) {
            if let Some(len) = self.retained[index].match_event(bytes, ranges, members) {
                self.retained[self.last_index].next_index = index;
                self.last_index = index;
                self.misses = self.misses.saturating_sub(1);
                return Some((len, self.retained[index].number));
            }
            members.truncate(counts_before);
            *ranges = EventRanges::default();
        }
        self.misses += 1;
        if self.misses > MAX_MISSES {
            let pause = FIRST_PAUSE.max(2 * self.last_pause);
            let learned_count = self.learned_count;
            *self =
                Self { learned_count, paused_events: pause, last_pause: pause, ..Self::default() };
        }
        None
    }

    /// Remembers the shape of an event. The event has no escapes and irregularities, and `members`
    /// are its arguments and extra members.
    pub(super) fn learn(&mut self, event: &[u8], ranges: &EventRanges, members: [&[Member]; 2]) {
        if self.paused_events > 0 || self.retained.len() == MAX_SHAPES {
            return;
        }
        let Some(shape) = Shape::from_event(event, ranges, members) else { return };
        if !self.retained.iter_mut().any(|other| other.widen(&shape)) {
            self.retained.push(Shape { number: self.learned_count, ..shape });
            self.learned_count += 1;
        }
    }
}

impl Shape {
    /// Returns the shape of an event, `None` if it is too long.
    fn from_event(
        event: &[u8],
        ranges: &EventRanges,
        [args, extra]: [&[Member]; 2],
    ) -> Option<Self> {
        let standard = ranges.standard().map(|(role, value)| (value, MemberTarget::Standard(role)));
        let args = args.iter().map(|member| (member.value, MemberTarget::Arg(member.key)));
        let extra = extra.iter().map(|member| (member.value, MemberTarget::Extra(member.key)));
        let mut values: Vec<_> = standard.chain(args).chain(extra).collect();
        values.sort_by_key(|(value, _)| value.start());

        let mut shape = Self { number: 0, text: Vec::new(), slots: Vec::new(), next_index: 0 };
        let mut text_position = 0;
        for (value, target) in values {
            let len = value.end() - value.start();
            let kind = match event.get(value.start())? {
                _ if matches!(target, MemberTarget::Standard(Role::Phase | Role::Category)) => {
                    ValueKind::Constant(len)
                }
                b'"' => ValueKind::Text,
                _ if plain_number_len(&event[value.start()..]) == Some(len) => ValueKind::Number,
                _ => ValueKind::Other,
            };
            let target = match target {
                MemberTarget::Standard(role) => MemberTarget::Standard(role),
                MemberTarget::Arg(key) => MemberTarget::Arg(key.shift_back(text_position)?),
                MemberTarget::Extra(key) => MemberTarget::Extra(key.shift_back(text_position)?),
            };
            let (begin, end) = match kind {
                ValueKind::Constant(_) => (value.end(), value.end()),
                ValueKind::Text => (value.start() + 1, value.end() - 1),
                ValueKind::Number | ValueKind::Other => (value.start(), value.end()),
            };
            shape.text.extend_from_slice(event.get(text_position..begin)?);
            shape.slots.push(ShapeSlot { end: shape.text.len(), kind, target });
            text_position = end;
        }
        shape.text.extend_from_slice(event.get(text_position..)?);
        (shape.text.len() <= MAX_SHAPE_BYTES).then_some(shape)
    }

    /// Merges a shape that differs only in the kinds of values. Returns `false` if it differs in
    /// more.
    fn widen(&mut self, other: &Self) -> bool {
        let ends = self.slots.iter().map(|slot| slot.end);
        let is_alike = self.text == other.text && ends.eq(other.slots.iter().map(|slot| slot.end));
        if is_alike {
            for (slot, other) in self.slots.iter_mut().zip(&other.slots) {
                if slot.kind != other.kind {
                    slot.kind = ValueKind::Other;
                }
            }
        }
        is_alike
    }

    fn match_event(
        &self,
        bytes: &[u8],
        ranges: &mut EventRanges,
        members: &mut Members,
    ) -> Option<usize> {
        let (mut position, mut text_position) = (0, 0);
        for ShapeSlot { end, kind, target } in &self.slots {
            let start = position;
            position = match_text(bytes, position, &self.text[text_position..*end])?;
            text_position = *end;
            let value = match *kind {
                ValueKind::Constant(len) => TextRange::new(position - len, position),
                ValueKind::Text => {
                    let begin = position;
                    position = end_of_plain_text(bytes, position);
                    TextRange::new(begin - 1, position + 1)
                }
                ValueKind::Number => {
                    let begin = position;
                    position += plain_number_len(&bytes[position..])?;
                    TextRange::new(begin, position)
                }
                ValueKind::Other => {
                    let mut lexer = Lexer::starting_at(bytes, position);
                    let value = lexer.read_value().ok()?;
                    if lexer.has_escapes || lexer.is_irregular {
                        return None;
                    }
                    position = lexer.position();
                    value
                }
            };
            match *target {
                MemberTarget::Standard(role) => ranges.set(role, value),
                MemberTarget::Arg(key) => {
                    members.args.push(Member { key: key.shift_forward(start), value });
                }
                MemberTarget::Extra(key) => {
                    members.extra.push(Member { key: key.shift_forward(start), value });
                }
            }
        }
        match_text(bytes, position, &self.text[text_position..])
    }
}

/// Returns the position after `text` if the bytes have it at `position`.
#[inline]
fn match_text(bytes: &[u8], position: usize, text: &[u8]) -> Option<usize> {
    let end = position + text.len();
    bytes_equal(bytes.get(position..end)?, text).then_some(end)
}

/// Compares texts of equal length. Most are short, and an inline comparison is then faster than a
/// call of `memcmp`.
#[inline]
fn bytes_equal(left: &[u8], right: &[u8]) -> bool {
    if left.len() > 32 {
        return left == right;
    }
    let ends = ends_equal::<16>(left, right)
        .or_else(|| ends_equal::<8>(left, right))
        .or_else(|| ends_equal::<4>(left, right));
    ends.unwrap_or_else(|| left.iter().eq(right))
}

/// Compares the first and the last `N` bytes. Returns `None` if there are fewer.
#[inline]
fn ends_equal<const N: usize>(left: &[u8], right: &[u8]) -> Option<bool> {
    let is_first_equal = left.first_chunk::<N>()? == right.first_chunk()?;
    Some(is_first_equal & (left.last_chunk::<N>()? == right.last_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_event::lexer::LexError;
    use proptest::prelude::*;

    /// Events of several programs. `@` and `#` are placeholders for strings and values.
    const WRITERS: [&str; 6] = [
        "{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"@\", \"ts\": #, \"dur\": #,\n    \"args\": {\n      \"External id\": #,\"Input Dims\": [[#, #], []]\n    }\n  }",
        r#"{"name":"@","ph":"s","pid":#,"id":"@"}"#,
        r#"{"ph":"i","name":"@","args":{},"other":#,"args":{"k":"@","l":{"m":[#]}}}"#,
        r#"{"ph":"C","ph":"@","ts":#,"ts":#,"args":[#],"cat":"@"}"#,
        "{}",
        r#"{"args":{"a":#,"a":#},"x":true}"#,
    ];

    fn event() -> impl Strategy<Value = String> {
        let text = r#"[a-z ]{0,20}|\\"|\\u0041|é|"#;
        let number = r"0|-1|[1-9][0-9]{0,20}|[0-9]\.[0-9]{1,3}|1e5|007|1\.|null|nan|\[1\]";
        let some = prop::collection::vec((text, number), 8);
        (0..WRITERS.len(), some).prop_map(|(writer, some)| {
            let mut event = WRITERS[writer].to_owned();
            for (text, number) in some {
                event = event.replacen('@', &text, 1).replacen('#', &number, 1);
            }
            event
        })
    }

    /// Returns the ranges of an event as text.
    fn parse_event(event: &[u8], shapes: &mut Shapes) -> (Result<usize, LexError>, String) {
        let (mut ranges, mut members) = (EventRanges::default(), Members::default());
        let end = ranges.parse(event, &mut members, shapes);
        ranges.shape = None;
        let description =
            if end.is_ok() { format!("{ranges:?} {members:?}") } else { String::new() };
        (end, description)
    }

    proptest! {
        // A case has up to 24 events: 20 ms without optimisation.
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn shapes_do_not_change_the_result(
            events in prop::collection::vec((event(), prop::option::of((any::<u16>(), any::<u8>()))), 1..24),
            cut in any::<u16>(),
        ) {
            let mut shapes = Shapes::default();
            for (event, flip) in events {
                let mut bytes = event.into_bytes();
                if let Some((position, byte)) = flip {
                    let position = usize::from(position) % bytes.len();
                    bytes[position] = byte;
                }
                let cut = &bytes[..usize::from(cut) % bytes.len()];
                for bytes in [&*bytes, cut] {
                    prop_assert_eq!(parse_event(bytes, &mut shapes), parse_event(bytes, &mut Shapes::default()));
                }
            }
        }
    }

    #[test]
    fn an_event_of_a_known_shape_is_matched() {
        let mut shapes = Shapes::default();
        for (number, name) in [(0, "a"), (1, "bc"), (2, "")] {
            let event =
                format!(r#"{{"ph":"X","name":"{name}","ts":1.{number},"args":{{"n":[1]}}}},"#);
            let (mut ranges, mut members) = (EventRanges::default(), Members::default());
            let known = shapes.match_event(event.as_bytes(), &mut ranges, &mut members);
            assert_eq!(known, (number > 0).then_some((event.len() - 1, 0)));
            let end = ranges.parse(event.as_bytes(), &mut members, &mut shapes);
            assert_eq!((end, shapes.retained.len()), (Ok(event.len() - 1), 1));
        }
    }

    #[test]
    fn a_shape_is_widened_by_other_values() {
        let mut shapes = Shapes::default();
        for value in ["1", "1.5", "-2", "1e5", "null", "[1]", "{}", "1", "1e5"] {
            let event = format!(r#"{{"ph":"X","ts":{value},"args":{{"n":{value}}}}}"#);
            assert_eq!(parse_event(event.as_bytes(), &mut shapes).0, Ok(event.len()));
            assert_eq!(shapes.retained.len(), 1, "{value}");
        }
        assert_eq!(shapes.misses, 0);
    }

    #[test]
    fn comparing_pauses_when_no_shape_matches() {
        let mut shapes = Shapes::default();
        let event = |key: &str| format!(r#"{{"ph":"X","{key}":1}}"#);
        let mut compared = 0;
        for number in 0..100_000 {
            let (end, _) = parse_event(event(&number.to_string()).as_bytes(), &mut shapes);
            assert!(end.is_ok() && shapes.retained.len() <= MAX_SHAPES);
            compared += usize::from(shapes.paused_events == 0);
        }
        assert!(compared < 2000, "{compared}");
        // Later events may match again.
        shapes.paused_events = 0;
        for _ in 0..2 {
            assert!(parse_event(event("same").as_bytes(), &mut shapes).0.is_ok());
        }
        let known = shapes.match_event(
            event("same").as_bytes(),
            &mut EventRanges::default(),
            &mut Members::default(),
        );
        // Numbers of forgotten shapes are not reused.
        assert!(known.is_some_and(|(_, number)| number >= 32));
    }
}
