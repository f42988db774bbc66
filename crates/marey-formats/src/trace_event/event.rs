//! One event, as pieces of its text.

use std::borrow::Cow;

use marey_model::args::NewArgs;

use super::lexer::{Lexer, Member, Piece, Stop};
use super::text::{repaired, unescaped};

/// The pieces of an event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pieces {
    phase: Piece,
    name: Piece,
    category: Piece,
    time: Piece,
    duration: Piece,
    process: Piece,
    thread: Piece,
    id: Piece,
    id2: Piece,
    scope: Piece,
    instant_scope: Piece,
    binding: Piece,
    /// Which of the members are its own, from and to.
    members: [Lens; 2],
    has_escapes: bool,
    is_irregular: bool,
}

/// The arguments of events, and what else stands beside the usual members of them.
#[derive(Debug, Default)]
pub(super) struct Members {
    args: Vec<Member>,
    others: Vec<Member>,
}

/// How many there are of both.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lens {
    args: u32,
    others: u32,
}

impl Members {
    pub(super) fn lens(&self) -> Lens {
        Lens { args: self.args.len() as u32, others: self.others.len() as u32 }
    }

    pub(super) fn truncate(&mut self, lens: Lens) {
        self.args.truncate(lens.args as usize);
        self.others.truncate(lens.others as usize);
    }
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    text: &'a str,
    pieces: &'a Pieces,
    args: &'a [Member],
    others: &'a [Member],
    /// Where it begins in the file.
    pub(super) offset: u64,
}

impl Pieces {
    /// Finds the pieces of the event that begins here, and its length; its members join others.
    pub(super) fn find(bytes: &[u8], members: &mut Members) -> Result<(usize, Self), Stop> {
        let before = members.lens();
        let mut lexer = Lexer::new(bytes);
        let mut pieces = Self::default();
        let found = pieces.find_all(&mut lexer, members, before);
        if let Err(stop) = found {
            members.truncate(before);
            return Err(stop);
        }
        pieces.members = [before, members.lens()];
        pieces.has_escapes = lexer.has_escapes;
        pieces.is_irregular = lexer.is_irregular;
        Ok((lexer.at(), pieces))
    }

    fn find_all(
        &mut self,
        lexer: &mut Lexer,
        members: &mut Members,
        before: Lens,
    ) -> Result<(), Stop> {
        lexer.object(|lexer, key| {
            let place = match lexer.bytes_of(key) {
                b"ph" => &mut self.phase,
                b"name" => &mut self.name,
                b"cat" => &mut self.category,
                b"ts" => &mut self.time,
                b"dur" => &mut self.duration,
                b"pid" => &mut self.process,
                b"tid" => &mut self.thread,
                b"id" => &mut self.id,
                b"id2" => &mut self.id2,
                b"scope" => &mut self.scope,
                b"s" => &mut self.instant_scope,
                b"bp" => &mut self.binding,
                b"args" if lexer.peek()? == b'{' => {
                    members.args.truncate(before.args as usize); // the last ones count
                    return lexer.object(|lexer, key| {
                        let value = lexer.value()?;
                        members.args.push(Member { key, value });
                        Ok(())
                    });
                }
                _ => {
                    let value = lexer.value()?;
                    members.others.push(Member { key, value });
                    return Ok(());
                }
            };
            *place = lexer.value()?;
            Ok(())
        })
    }

    /// The event whose pieces these are.
    pub(super) fn event<'a>(
        &'a self,
        text: &'a str,
        members: &'a Members,
        offset: u64,
    ) -> Event<'a> {
        let [from, to] = self.members;
        let args = &members.args[from.args as usize..to.args as usize];
        let others = &members.others[from.others as usize..to.others as usize];
        Event { text, pieces: self, args, others, offset }
    }
}

impl<'a> Event<'a> {
    /// The letter that says what kind of event it is.
    pub(super) fn phase(&self) -> Option<u8> {
        match self.pieces.phase.of(self.text).as_bytes() {
            [b'"', letter, b'"'] => Some(*letter),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> Cow<'a, str> {
        self.said(self.pieces.name).unwrap_or_default()
    }

    pub(super) fn category(&self) -> Option<Cow<'a, str>> {
        self.said(self.pieces.category)
    }

    /// When it begins, as JSON.
    pub(super) fn time(&self) -> &'a str {
        self.pieces.time.of(self.text)
    }

    /// How long it lasts, as JSON; empty, if it does not say.
    pub(super) fn duration(&self) -> &'a str {
        self.pieces.duration.of(self.text)
    }

    /// Its process, as JSON; empty, if it does not say.
    pub(super) fn process(&self) -> &'a str {
        self.pieces.process.of(self.text)
    }

    /// Its thread, as JSON; empty, if it does not say.
    pub(super) fn thread(&self) -> &'a str {
        self.pieces.thread.of(self.text)
    }

    /// What tells its arrow or its track from others.
    pub(super) fn id(&self) -> Option<Cow<'a, str>> {
        self.said(self.pieces.id)
    }

    /// The same as an object that says whether it is the process's own.
    pub(super) fn id2(&self) -> Option<&'a str> {
        let piece = self.pieces.id2;
        (!piece.is_none()).then(|| piece.of(self.text))
    }

    pub(super) fn scope(&self) -> Option<Cow<'a, str>> {
        self.said(self.pieces.scope)
    }

    /// What an instant concerns: a letter.
    pub(super) fn instant_scope(&self) -> Option<Cow<'a, str>> {
        self.said(self.pieces.instant_scope)
    }

    /// Whether an arrow ends in what is around it.
    pub(super) fn is_enclosed(&self) -> bool {
        self.said(self.pieces.binding).as_deref() == Some("e")
    }

    /// The arguments: keys as they say, values as JSON.
    pub(super) fn args(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
        let event = *self;
        event.args.iter().map(move |member| event.member(member))
    }

    /// The value of an argument as JSON.
    pub(super) fn arg(&self, key: &str) -> Option<&'a str> {
        self.args().find(|arg| arg.0 == key).map(|arg| arg.1)
    }

    /// The arguments, and what stands beside the usual members of an event.
    pub(super) fn members(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
        let event = *self;
        let others = event.others.iter().map(move |member| event.member(member));
        others.chain(self.args())
    }

    /// Adds what stands beside the usual members of an event.
    pub(super) fn others_into(&self, args: &mut NewArgs) {
        for member in self.others {
            let (key, value) = self.member(member);
            self.add(&key, value, args);
        }
    }

    /// Adds a value of the event, as JSON that can be read.
    pub(super) fn add(&self, key: &str, value: &str, args: &mut NewArgs) {
        if self.pieces.is_irregular {
            args.json(key, &repaired(value));
        } else if self.pieces.has_escapes {
            args.json(key, value);
        } else {
            args.plain_json(key, value);
        }
    }

    /// All arguments as a JSON object.
    pub(super) fn args_json(&self) -> String {
        let mut object = NewArgs::default();
        for (key, value) in self.args() {
            self.add(&key, value, &mut object);
        }
        let mut json = String::new();
        marey_model::args::fill(&object.text_with_gaps(), object.numbers(), &mut json);
        json
    }

    /// What a text says; other values say what stands there.
    pub(super) fn text_of(&self, json: &'a str) -> Cow<'a, str> {
        match json.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(raw) => self.unescape(raw),
            None => Cow::Borrowed(json),
        }
    }

    fn said(&self, piece: Piece) -> Option<Cow<'a, str>> {
        (!piece.is_none()).then(|| self.text_of(piece.of(self.text)))
    }

    fn member(&self, member: &Member) -> (Cow<'a, str>, &'a str) {
        (self.unescape(member.key.of(self.text)), member.value.of(self.text))
    }

    fn unescape(&self, raw: &'a str) -> Cow<'a, str> {
        if self.pieces.has_escapes { unescaped(raw) } else { Cow::Borrowed(raw) }
    }
}
