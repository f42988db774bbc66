//! Shapes of events: who writes a file writes the same keys in the same order, with the same white space,
//! again and again. What stands between two values is compared then, and not read.

use super::event::{Members, Pieces, Role};
use super::lexer::{Lexer, Member, Piece, end_of_plain, usual_number};

/// So many are known at a time: an event that has none of them takes longer than without any.
const MAX_SHAPES: usize = 32;

/// Shapes of more bytes between their values are not kept.
const MAX_BYTES: usize = 2048;

/// So many events of no known shape more than of one, and nothing is compared for a while, which is longer
/// each time: looking for shapes in vain takes longer than reading.
const MAX_MISSES: u32 = 128;
const FIRST_PAUSE: u64 = 1024;

/// The shapes of the events so far.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    all: Vec<Shape>,
    /// That of the last event which had one.
    last: usize,
    /// How many there ever were: the number of the next.
    learned: u32,
    /// Events that had none, less those that had one.
    misses: u32,
    /// Events that are read without.
    paused: u64,
    /// How many there were the last time.
    last_pause: u64,
}

/// What stands before, between and behind the values of an event.
#[derive(Debug)]
struct Shape {
    /// How many were known before it.
    number: u32,
    /// One stretch after the other.
    text: Vec<u8>,
    slots: Vec<Slot>,
    /// The shape of the event that came after the last one of this.
    next: usize,
}

/// A value, after a stretch of text.
#[derive(Debug)]
struct Slot {
    /// Where its stretch ends in the text.
    end: usize,
    kind: Kind,
    goes: Goes,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The same in all events of the shape: the last bytes of the stretch, so many.
    Same(usize),
    /// A text; its quotes are the stretches'.
    Text,
    /// A number as most are written.
    Number,
    /// Anything else.
    Other,
}

/// Where a value goes. Keys are places in the stretch.
#[derive(Clone, Copy, Debug)]
enum Goes {
    Usual(Role),
    Arg(Piece),
    Beside(Piece),
}

impl Shapes {
    /// Finds the pieces of the event that begins here; its length and the number of its shape, if that is
    /// known and the event is all there.
    pub(super) fn find(
        &mut self,
        bytes: &[u8],
        pieces: &mut Pieces,
        members: &mut Members,
    ) -> Option<(usize, u32)> {
        if self.paused > 0 {
            self.paused -= 1;
            return None;
        }
        let likely = self.all.get(self.last)?.next;
        let others = (0..self.all.len()).filter(|shape| *shape != likely);
        let before = members.lens();
        for at in std::iter::once(likely).chain(others) {
            if let Some(len) = self.all[at].find(bytes, pieces, members) {
                self.all[self.last].next = at;
                self.last = at;
                self.misses = self.misses.saturating_sub(1);
                return Some((len, self.all[at].number));
            }
            members.truncate(before);
            *pieces = Pieces::default();
        }
        self.misses += 1;
        if self.misses > MAX_MISSES {
            let pause = FIRST_PAUSE.max(2 * self.last_pause);
            let learned = self.learned;
            *self = Self { learned, paused: pause, last_pause: pause, ..Self::default() };
        }
        None
    }

    /// Remembers the shape of an event that has no escapes and is regular, with its arguments and what is
    /// beside its usual members.
    pub(super) fn learn(&mut self, event: &[u8], pieces: &Pieces, members: [&[Member]; 2]) {
        if self.paused > 0 || self.all.len() == MAX_SHAPES {
            return;
        }
        let Some(shape) = Shape::of(event, pieces, members) else { return };
        if !self.all.iter_mut().any(|known| known.widen(&shape)) {
            self.all.push(Shape { number: self.learned, ..shape });
            self.learned += 1;
        }
    }
}

impl Shape {
    /// Of an event; none if it is too long.
    fn of(event: &[u8], pieces: &Pieces, [args, beside]: [&[Member]; 2]) -> Option<Self> {
        let usual = pieces.usual().map(|(role, value)| (value, Goes::Usual(role)));
        let args = args.iter().map(|member| (member.value, Goes::Arg(member.key)));
        let beside = beside.iter().map(|member| (member.value, Goes::Beside(member.key)));
        let mut values: Vec<_> = usual.chain(args).chain(beside).collect();
        values.sort_by_key(|(value, _)| value.start());

        let mut shape = Self { number: 0, text: Vec::new(), slots: Vec::new(), next: 0 };
        let mut done = 0;
        for (value, goes) in values {
            let len = value.end() - value.start();
            let kind = match event.get(value.start())? {
                _ if matches!(goes, Goes::Usual(Role::Phase | Role::Category)) => Kind::Same(len),
                b'"' => Kind::Text,
                _ if usual_number(&event[value.start()..]) == Some(len) => Kind::Number,
                _ => Kind::Other,
            };
            let goes = match goes {
                Goes::Usual(role) => Goes::Usual(role),
                Goes::Arg(key) => Goes::Arg(key.earlier(done)?),
                Goes::Beside(key) => Goes::Beside(key.earlier(done)?),
            };
            let (begin, end) = match kind {
                Kind::Same(_) => (value.end(), value.end()),
                Kind::Text => (value.start() + 1, value.end() - 1),
                Kind::Number | Kind::Other => (value.start(), value.end()),
            };
            shape.text.extend_from_slice(event.get(done..begin)?);
            shape.slots.push(Slot { end: shape.text.len(), kind, goes });
            done = end;
        }
        shape.text.extend_from_slice(event.get(done..)?);
        (shape.text.len() <= MAX_BYTES).then_some(shape)
    }

    /// Takes in another one that differs in what values are, if it is such.
    fn widen(&mut self, other: &Self) -> bool {
        let ends = self.slots.iter().map(|slot| slot.end);
        let is_alike = self.text == other.text && ends.eq(other.slots.iter().map(|slot| slot.end));
        if is_alike {
            for (slot, other) in self.slots.iter_mut().zip(&other.slots) {
                if slot.kind != other.kind {
                    slot.kind = Kind::Other;
                }
            }
        }
        is_alike
    }

    fn find(&self, bytes: &[u8], pieces: &mut Pieces, members: &mut Members) -> Option<usize> {
        let (mut at, mut done) = (0, 0);
        for Slot { end, kind, goes } in &self.slots {
            let start = at;
            at = behind(bytes, at, &self.text[done..*end])?;
            done = *end;
            let value = match *kind {
                Kind::Same(len) => Piece::new(at - len, at),
                Kind::Text => {
                    let begin = at;
                    at = end_of_plain(bytes, at);
                    Piece::new(begin - 1, at + 1)
                }
                Kind::Number => {
                    let begin = at;
                    at += usual_number(&bytes[at..])?;
                    Piece::new(begin, at)
                }
                Kind::Other => {
                    let mut lexer = Lexer::starting_at(bytes, at);
                    let value = lexer.value().ok()?;
                    if lexer.has_escapes || lexer.is_irregular {
                        return None;
                    }
                    at = lexer.at();
                    value
                }
            };
            match *goes {
                Goes::Usual(role) => pieces.set(role, value),
                Goes::Arg(key) => members.args.push(Member { key: key.later(start), value }),
                Goes::Beside(key) => members.others.push(Member { key: key.later(start), value }),
            }
        }
        behind(bytes, at, &self.text[done..])
    }
}

/// The place behind a text, if it is there.
#[inline]
fn behind(bytes: &[u8], at: usize, text: &[u8]) -> Option<usize> {
    let end = at + text.len();
    is_same(bytes.get(at..end)?, text).then_some(end)
}

/// Whether two texts of the same length are the same. Most are short: a call takes longer than to compare
/// them.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() > 32 {
        return one == other;
    }
    let ends = both_ends::<16>(one, other)
        .or_else(|| both_ends::<8>(one, other))
        .or_else(|| both_ends::<4>(one, other));
    ends.unwrap_or_else(|| one.iter().eq(other))
}

/// Whether the first and the last so many bytes are the same, if there are so many.
#[inline]
fn both_ends<const N: usize>(one: &[u8], other: &[u8]) -> Option<bool> {
    let first = one.first_chunk::<N>()? == other.first_chunk()?;
    Some(first & (one.last_chunk::<N>()? == other.last_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_event::lexer::Stop;
    use proptest::prelude::*;

    /// Events of several writers; `@` and `#` stand for texts and values.
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

    /// What is found in an event.
    fn found(event: &[u8], shapes: &mut Shapes) -> (Result<usize, Stop>, String) {
        let (mut pieces, mut members) = (Pieces::default(), Members::default());
        let end = pieces.find(event, &mut members, shapes);
        pieces.shape = None;
        let said = if end.is_ok() { format!("{pieces:?} {members:?}") } else { String::new() };
        (end, said)
    }

    proptest! {
        #[test]
        fn shapes_change_nothing(
            events in prop::collection::vec((event(), prop::option::of((any::<u16>(), any::<u8>()))), 1..24),
            cut in any::<u16>(),
        ) {
            let mut shapes = Shapes::default();
            for (event, flip) in events {
                let mut bytes = event.into_bytes();
                if let Some((at, byte)) = flip {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] = byte;
                }
                let cut = &bytes[..usize::from(cut) % bytes.len()];
                for bytes in [&*bytes, cut] {
                    prop_assert_eq!(found(bytes, &mut shapes), found(bytes, &mut Shapes::default()));
                }
            }
        }
    }

    #[test]
    fn an_event_of_a_known_shape_is_found_by_it() {
        let mut shapes = Shapes::default();
        for (number, name) in [(0, "a"), (1, "bc"), (2, "")] {
            let event =
                format!(r#"{{"ph":"X","name":"{name}","ts":1.{number},"args":{{"n":[1]}}}},"#);
            let (mut pieces, mut members) = (Pieces::default(), Members::default());
            let known = shapes.find(event.as_bytes(), &mut pieces, &mut members);
            assert_eq!(known, (number > 0).then_some((event.len() - 1, 0)));
            let end = pieces.find(event.as_bytes(), &mut members, &mut shapes);
            assert_eq!((end, shapes.all.len()), (Ok(event.len() - 1), 1));
        }
    }

    #[test]
    fn a_shape_takes_in_other_values() {
        let mut shapes = Shapes::default();
        for value in ["1", "1.5", "-2", "1e5", "null", "[1]", "{}", "1", "1e5"] {
            let event = format!(r#"{{"ph":"X","ts":{value},"args":{{"n":{value}}}}}"#);
            assert_eq!(found(event.as_bytes(), &mut shapes).0, Ok(event.len()));
            assert_eq!(shapes.all.len(), 1, "{value}");
        }
        assert_eq!(shapes.misses, 0);
    }

    #[test]
    fn events_without_a_shape_are_read_without_looking_for_one() {
        let mut shapes = Shapes::default();
        let event = |key: &str| format!(r#"{{"ph":"X","{key}":1}}"#);
        let mut compared = 0;
        for number in 0..100_000 {
            let (end, _) = found(event(&number.to_string()).as_bytes(), &mut shapes);
            assert!(end.is_ok() && shapes.all.len() <= MAX_SHAPES);
            compared += usize::from(shapes.paused == 0);
        }
        assert!(compared < 2000, "{compared}");
        // The file may change.
        shapes.paused = 0;
        for _ in 0..2 {
            assert!(found(event("same").as_bytes(), &mut shapes).0.is_ok());
        }
        let known =
            shapes.find(event("same").as_bytes(), &mut Pieces::default(), &mut Members::default());
        // No shape has the number of one that was forgotten.
        assert!(known.is_some_and(|(_, number)| number >= 32));
    }
}
