//! One event, as pieces of its text.

use std::borrow::Cow;

use marey_model::args::NewArgs;

use super::lexer::{Lexer, Member, Piece, Stop};
use super::number::quoted;
use super::shape::Shapes;
use super::text::{repaired, unescaped};

/// The pieces of an event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pieces {
    /// The values of its usual members, by [`Role`].
    usual: [Piece; Role::USUAL.len()],
    /// Which of the members are its own, from and to.
    members: [Lens; 2],
    has_escapes: bool,
    is_irregular: bool,
    /// The number of its shape, if it was found by that.
    pub(super) shape: Option<u32>,
}

/// What a usual member of an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Phase,
    Name,
    Category,
    Time,
    Duration,
    Process,
    Thread,
    Id,
    Id2,
    Scope,
    InstantScope,
    Binding,
    Args,
}

impl Role {
    /// Those of which an event has the value itself.
    const USUAL: [Self; 12] = [
        Self::Phase,
        Self::Name,
        Self::Category,
        Self::Time,
        Self::Duration,
        Self::Process,
        Self::Thread,
        Self::Id,
        Self::Id2,
        Self::Scope,
        Self::InstantScope,
        Self::Binding,
    ];

    /// By the key.
    fn of(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"ph" => Self::Phase,
            b"name" => Self::Name,
            b"cat" => Self::Category,
            b"ts" => Self::Time,
            b"dur" => Self::Duration,
            b"pid" => Self::Process,
            b"tid" => Self::Thread,
            b"id" => Self::Id,
            b"id2" => Self::Id2,
            b"scope" => Self::Scope,
            b"s" => Self::InstantScope,
            b"bp" => Self::Binding,
            b"args" => Self::Args,
            _ => return None,
        })
    }

    /// The same by the first bytes behind a quote, with the length of the key: all but `scope` are short.
    #[inline]
    fn at_start(bytes: [u8; 8]) -> Option<(Self, usize)> {
        let len = bytes[..5].iter().position(|byte| *byte == b'"')?;
        Self::of(&bytes[..len]).map(|role| (role, len))
    }
}

/// The arguments of events, and what else stands beside the usual members of them.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) args: Vec<Member>,
    pub(super) others: Vec<Member>,
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
    /// Finds the pieces of the event that begins here, and gives its length; its members join others.
    pub(super) fn find(
        &mut self,
        bytes: &[u8],
        members: &mut Members,
        shapes: &mut Shapes,
    ) -> Result<usize, Stop> {
        let before = members.lens();
        if let Some((len, shape)) = shapes.find(bytes, self, members) {
            self.members = [before, members.lens()];
            self.shape = Some(shape);
            return Ok(len);
        }
        let mut lexer = Lexer::new(bytes);
        let found = self.find_all(&mut lexer, members, before);
        if let Err(stop) = found {
            members.truncate(before);
            return Err(stop);
        }
        self.members = [before, members.lens()];
        self.has_escapes = lexer.has_escapes;
        self.is_irregular = lexer.is_irregular;
        if !self.has_escapes && !self.is_irregular {
            let Members { args, others } = members;
            let own = [&args[before.args as usize..], &others[before.others as usize..]];
            shapes.learn(&bytes[..lexer.at()], self, own);
        }
        Ok(lexer.at())
    }

    /// The values of its usual members that are there.
    pub(super) fn usual(&self) -> impl Iterator<Item = (Role, Piece)> {
        let all = Role::USUAL.map(|role| (role, self.usual[role as usize]));
        all.into_iter().filter(|(_, value)| !value.is_none())
    }

    #[inline]
    pub(super) fn set(&mut self, role: Role, value: Piece) {
        self.usual[role as usize] = value;
    }

    fn find_all(
        &mut self,
        lexer: &mut Lexer,
        members: &mut Members,
        before: Lens,
    ) -> Result<(), Stop> {
        lexer.object_by(|lexer| {
            let usual = lexer.key_at_start(Role::at_start)?;
            let (role, key) = if let Some((role, key)) = usual {
                (Some(role), key)
            } else {
                let key = lexer.key()?;
                (Role::of(lexer.bytes_of(key)), key)
            };
            match role {
                Some(Role::Args) if lexer.peek()? == b'{' => {
                    members.args.truncate(before.args as usize); // the last ones count
                    lexer.object(|lexer, key| {
                        let value = lexer.value()?;
                        members.args.push(Member { key, value });
                        Ok(())
                    })
                }
                Some(Role::Args) | None => {
                    let value = lexer.value()?;
                    members.others.push(Member { key, value });
                    Ok(())
                }
                Some(role) => {
                    self.set(role, lexer.value()?);
                    Ok(())
                }
            }
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
        match self.piece(Role::Phase).of(self.text).as_bytes() {
            [b'"', letter, b'"'] => Some(*letter),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> Cow<'a, str> {
        self.said(Role::Name).unwrap_or_default()
    }

    pub(super) fn category(&self) -> Option<Cow<'a, str>> {
        self.said(Role::Category)
    }

    /// When it begins, as JSON.
    pub(super) fn time(&self) -> &'a str {
        self.piece(Role::Time).of(self.text)
    }

    /// How long it lasts, as JSON; empty, if it does not say.
    pub(super) fn duration(&self) -> &'a str {
        self.piece(Role::Duration).of(self.text)
    }

    /// Its process, as JSON; empty, if it does not say.
    pub(super) fn process(&self) -> &'a str {
        self.piece(Role::Process).of(self.text)
    }

    /// Its thread, as JSON; empty, if it does not say.
    pub(super) fn thread(&self) -> &'a str {
        self.piece(Role::Thread).of(self.text)
    }

    /// What tells its arrow or its track from others.
    pub(super) fn id(&self) -> Option<Cow<'a, str>> {
        self.said(Role::Id)
    }

    /// The same as an object that says whether it is the process's own.
    pub(super) fn id2(&self) -> Option<&'a str> {
        let piece = self.piece(Role::Id2);
        (!piece.is_none()).then(|| piece.of(self.text))
    }

    pub(super) fn scope(&self) -> Option<Cow<'a, str>> {
        self.said(Role::Scope)
    }

    /// What an instant concerns: a letter.
    pub(super) fn instant_scope(&self) -> Option<Cow<'a, str>> {
        self.said(Role::InstantScope)
    }

    /// Whether an arrow ends in what is around it.
    pub(super) fn is_enclosed(&self) -> bool {
        self.said(Role::Binding).as_deref() == Some("e")
    }

    /// The arguments: keys as they say, values as JSON.
    pub(super) fn args(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
        let event = *self;
        event.args.iter().map(move |member| event.member(member))
    }

    /// The values of the arguments, as JSON.
    pub(super) fn arg_values(&self) -> impl Iterator<Item = &'a str> {
        let text = self.text;
        self.args.iter().map(move |member| member.value.of(text))
    }

    /// The number of its shape, if another event had that before: events of one have the same category, the
    /// same arguments and the same members beside the usual ones, but for the values of those.
    pub(super) fn shape(&self) -> Option<u32> {
        self.pieces.shape
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
        marey_model::args::fill(&object.template(), object.numbers(), &mut json);
        json
    }

    /// What a text says; other values say what stands there.
    pub(super) fn text_of(&self, json: &'a str) -> Cow<'a, str> {
        match quoted(json) {
            Some(raw) => self.unescape(raw),
            None => Cow::Borrowed(json),
        }
    }

    fn piece(&self, role: Role) -> Piece {
        self.pieces.usual[role as usize]
    }

    fn said(&self, role: Role) -> Option<Cow<'a, str>> {
        let piece = self.piece(role);
        (!piece.is_none()).then(|| self.text_of(piece.of(self.text)))
    }

    fn member(&self, member: &Member) -> (Cow<'a, str>, &'a str) {
        (self.unescape(member.key.of(self.text)), member.value.of(self.text))
    }

    fn unescape(&self, raw: &'a str) -> Cow<'a, str> {
        if self.pieces.has_escapes { unescaped(raw) } else { Cow::Borrowed(raw) }
    }
}
