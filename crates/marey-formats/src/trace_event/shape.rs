//! Shapes of events: a program writes the same keys in the same order with the same white space,
//! again and again. The bytes between the values are then compared instead of parsed.

use super::event::{Members, Pieces, Role};
use super::lexer::{Lexer, Member, Piece, end_of_plain, plain_number};

/// Maximum number of shapes. An event that matches none is compared with all, which costs time.
const MAX_SHAPES: usize = 32;

/// Maximum size of the bytes between the values of a shape.
const MAX_BYTES: usize = 2048;

/// When misses exceed hits by this number, comparing pauses for a number of events that doubles
/// each time, since comparing without success is slower than parsing.
const MAX_MISSES: u32 = 128;
const FIRST_PAUSE: u64 = 1024;

/// The shapes of the events so far.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    all: Vec<Shape>,
    /// The shape of the last event that matched.
    last: usize,
    /// Number of shapes learned so far, including forgotten ones: the number of the next shape.
    learned: u32,
    /// Misses minus hits.
    misses: u32,
    /// Number of events that are still parsed without comparing.
    paused: u64,
    /// Length of the last pause.
    last_pause: u64,
}

/// The bytes before, between and after the values of an event.
#[derive(Debug)]
struct Shape {
    /// Its number.
    number: u32,
    /// The bytes, concatenated.
    text: Vec<u8>,
    slots: Vec<Slot>,
    /// Index of the shape that followed the last event of this one.
    next: usize,
}

/// A value, with the constant bytes before it.
#[derive(Debug)]
struct Slot {
    /// End of the constant bytes in the text.
    end: usize,
    kind: Kind,
    target: Target,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A value that is part of the constant bytes: their last `n` bytes.
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
enum Target {
    Standard(Role),
    Arg(Piece),
    Extra(Piece),
}

impl Shapes {
    /// Finds the pieces of the event at the start of `bytes`. Returns its length and the number of
    /// its shape if the shape is known and the event is complete.
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
        for position in std::iter::once(likely).chain(others) {
            if let Some(len) = self.all[position].find(bytes, pieces, members) {
                self.all[self.last].next = position;
                self.last = position;
                self.misses = self.misses.saturating_sub(1);
                return Some((len, self.all[position].number));
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

    /// Remembers the shape of an event without escapes and irregularities, given its arguments and
    /// extra members.
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
    /// Returns the shape of an event; `None` if it is too long.
    fn of(event: &[u8], pieces: &Pieces, [args, extra]: [&[Member]; 2]) -> Option<Self> {
        let standard = pieces.standard().map(|(role, value)| (value, Target::Standard(role)));
        let args = args.iter().map(|member| (member.value, Target::Arg(member.key)));
        let extra = extra.iter().map(|member| (member.value, Target::Extra(member.key)));
        let mut values: Vec<_> = standard.chain(args).chain(extra).collect();
        values.sort_by_key(|(value, _)| value.start());

        let mut shape = Self { number: 0, text: Vec::new(), slots: Vec::new(), next: 0 };
        let mut done = 0;
        for (value, target) in values {
            let len = value.end() - value.start();
            let kind = match event.get(value.start())? {
                _ if matches!(target, Target::Standard(Role::Phase | Role::Category)) => {
                    Kind::Constant(len)
                }
                b'"' => Kind::Text,
                _ if plain_number(&event[value.start()..]) == Some(len) => Kind::Number,
                _ => Kind::Other,
            };
            let target = match target {
                Target::Standard(role) => Target::Standard(role),
                Target::Arg(key) => Target::Arg(key.earlier(done)?),
                Target::Extra(key) => Target::Extra(key.earlier(done)?),
            };
            let (begin, end) = match kind {
                Kind::Constant(_) => (value.end(), value.end()),
                Kind::Text => (value.start() + 1, value.end() - 1),
                Kind::Number | Kind::Other => (value.start(), value.end()),
            };
            shape.text.extend_from_slice(event.get(done..begin)?);
            shape.slots.push(Slot { end: shape.text.len(), kind, target });
            done = end;
        }
        shape.text.extend_from_slice(event.get(done..)?);
        (shape.text.len() <= MAX_BYTES).then_some(shape)
    }

    /// Merges a shape that differs only in the kinds of values; `false` if it differs otherwise.
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
        let (mut position, mut done) = (0, 0);
        for Slot { end, kind, target } in &self.slots {
            let start = position;
            position = match_text(bytes, position, &self.text[done..*end])?;
            done = *end;
            let value = match *kind {
                Kind::Constant(len) => Piece::new(position - len, position),
                Kind::Text => {
                    let begin = position;
                    position = end_of_plain(bytes, position);
                    Piece::new(begin - 1, position + 1)
                }
                Kind::Number => {
                    let begin = position;
                    position += plain_number(&bytes[position..])?;
                    Piece::new(begin, position)
                }
                Kind::Other => {
                    let mut lexer = Lexer::starting_at(bytes, position);
                    let value = lexer.value().ok()?;
                    if lexer.has_escapes || lexer.is_irregular {
                        return None;
                    }
                    position = lexer.position();
                    value
                }
            };
            match *target {
                Target::Standard(role) => pieces.set(role, value),
                Target::Arg(key) => members.args.push(Member { key: key.later(start), value }),
                Target::Extra(key) => members.extra.push(Member { key: key.later(start), value }),
            }
        }
        match_text(bytes, position, &self.text[done..])
    }
}

/// Returns the position after a text, if the bytes contain it at `position`.
#[inline]
fn match_text(bytes: &[u8], position: usize, text: &[u8]) -> Option<usize> {
    let end = position + text.len();
    is_same(bytes.get(position..end)?, text).then_some(end)
}

/// Compares texts of equal length. Most are short, and a call to `memcmp` takes longer than
/// comparing inline.
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

/// Compares the first and the last `N` bytes; `None` if there are fewer.
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

    /// Events of several programs; `@` and `#` are placeholders for strings and values.
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

    /// Returns the pieces of an event as text.
    fn found(event: &[u8], shapes: &mut Shapes) -> (Result<usize, Stop>, String) {
        let (mut pieces, mut members) = (Pieces::default(), Members::default());
        let end = pieces.find(event, &mut members, shapes);
        pieces.shape = None;
        let description =
            if end.is_ok() { format!("{pieces:?} {members:?}") } else { String::new() };
        (end, description)
    }

    proptest! {
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
                    prop_assert_eq!(found(bytes, &mut shapes), found(bytes, &mut Shapes::default()));
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
            let (mut pieces, mut members) = (Pieces::default(), Members::default());
            let known = shapes.find(event.as_bytes(), &mut pieces, &mut members);
            assert_eq!(known, (number > 0).then_some((event.len() - 1, 0)));
            let end = pieces.find(event.as_bytes(), &mut members, &mut shapes);
            assert_eq!((end, shapes.all.len()), (Ok(event.len() - 1), 1));
        }
    }

    #[test]
    fn a_shape_is_widened_by_other_values() {
        let mut shapes = Shapes::default();
        for value in ["1", "1.5", "-2", "1e5", "null", "[1]", "{}", "1", "1e5"] {
            let event = format!(r#"{{"ph":"X","ts":{value},"args":{{"n":{value}}}}}"#);
            assert_eq!(found(event.as_bytes(), &mut shapes).0, Ok(event.len()));
            assert_eq!(shapes.all.len(), 1, "{value}");
        }
        assert_eq!(shapes.misses, 0);
    }

    #[test]
    fn comparing_pauses_when_no_shape_matches() {
        let mut shapes = Shapes::default();
        let event = |key: &str| format!(r#"{{"ph":"X","{key}":1}}"#);
        let mut compared = 0;
        for number in 0..100_000 {
            let (end, _) = found(event(&number.to_string()).as_bytes(), &mut shapes);
            assert!(end.is_ok() && shapes.all.len() <= MAX_SHAPES);
            compared += usize::from(shapes.paused == 0);
        }
        assert!(compared < 2000, "{compared}");
        // Later events may match again.
        shapes.paused = 0;
        for _ in 0..2 {
            assert!(found(event("same").as_bytes(), &mut shapes).0.is_ok());
        }
        let known =
            shapes.find(event("same").as_bytes(), &mut Pieces::default(), &mut Members::default());
        // Numbers of forgotten shapes are not reused.
        assert!(known.is_some_and(|(_, number)| number >= 32));
    }
}
