//! A single event as pieces of its text.

use std::borrow::Cow;

use marey_model::args::NewArgs;

use super::lexer::{Lexer, Member, Piece, Stop};
use super::number::quoted;
use super::shape::Shapes;
use super::text::{repaired, unescaped};

/// The pieces of an event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pieces {
    /// Values of the standard members, by [`Role`].
    standard: [Piece; Role::STANDARD.len()],
    /// Start and end of its members in [`Members`].
    members: [Lens; 2],
    has_escapes: bool,
    is_irregular: bool,
    /// The number of the shape by which it was found.
    pub(super) shape: Option<u32>,
}

/// The role of a standard member.
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
    /// The roles whose values are stored in [`Pieces`].
    const STANDARD: [Self; 12] = [
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

    /// Returns the role of a key.
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

    /// Returns the role of the key at the start of `bytes`, and the key's length: all keys but
    /// `scope` are short.
    #[inline]
    fn at_start(bytes: [u8; 8]) -> Option<(Self, usize)> {
        let len = bytes[..5].iter().position(|byte| *byte == b'"')?;
        Self::of(&bytes[..len]).map(|role| (role, len))
    }
}

/// The arguments of events, and the members beyond the standard ones.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) args: Vec<Member>,
    pub(super) extra: Vec<Member>,
}

/// Numbers of arguments and extra members.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lens {
    args: u32,
    extra: u32,
}

impl Members {
    pub(super) fn lens(&self) -> Lens {
        Lens { args: self.args.len() as u32, extra: self.extra.len() as u32 }
    }

    pub(super) fn truncate(&mut self, lens: Lens) {
        self.args.truncate(lens.args as usize);
        self.extra.truncate(lens.extra as usize);
    }
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    text: &'a str,
    pieces: &'a Pieces,
    args: &'a [Member],
    extra: &'a [Member],
    /// File offset.
    pub(super) offset: u64,
}

impl Pieces {
    /// Finds the pieces of the event at the start of `bytes` and returns its length. Its members
    /// are appended to `members`.
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
            let Members { args, extra } = members;
            let members = [&args[before.args as usize..], &extra[before.extra as usize..]];
            shapes.learn(&bytes[..lexer.position()], self, members);
        }
        Ok(lexer.position())
    }

    /// Returns the values of the standard members that are present.
    pub(super) fn standard(&self) -> impl Iterator<Item = (Role, Piece)> {
        let all = Role::STANDARD.map(|role| (role, self.standard[role as usize]));
        all.into_iter().filter(|(_, value)| !value.is_none())
    }

    #[inline]
    pub(super) fn set(&mut self, role: Role, value: Piece) {
        self.standard[role as usize] = value;
    }

    fn find_all(
        &mut self,
        lexer: &mut Lexer,
        members: &mut Members,
        before: Lens,
    ) -> Result<(), Stop> {
        lexer.object_by(|lexer| {
            let standard = lexer.key_at_start(Role::at_start)?;
            let (role, key) = if let Some((role, key)) = standard {
                (Some(role), key)
            } else {
                let key = lexer.key()?;
                (Role::of(lexer.bytes_of(key)), key)
            };
            match role {
                Some(Role::Args) if lexer.peek()? == b'{' => {
                    members.args.truncate(before.args as usize); // the last `args` count
                    lexer.object(|lexer, key| {
                        let value = lexer.value()?;
                        members.args.push(Member { key, value });
                        Ok(())
                    })
                }
                Some(Role::Args) | None => {
                    let value = lexer.value()?;
                    members.extra.push(Member { key, value });
                    Ok(())
                }
                Some(role) => {
                    self.set(role, lexer.value()?);
                    Ok(())
                }
            }
        })
    }

    /// Returns the event with these pieces.
    pub(super) fn event<'a>(
        &'a self,
        text: &'a str,
        members: &'a Members,
        offset: u64,
    ) -> Event<'a> {
        let [from, to] = self.members;
        let args = &members.args[from.args as usize..to.args as usize];
        let extra = &members.extra[from.extra as usize..to.extra as usize];
        Event { text, pieces: self, args, extra, offset }
    }
}

impl<'a> Event<'a> {
    /// Returns the letter of the event's phase.
    pub(super) fn phase(&self) -> Option<u8> {
        match self.piece(Role::Phase).of(self.text).as_bytes() {
            [b'"', letter, b'"'] => Some(*letter),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> Cow<'a, str> {
        self.text_value(Role::Name).unwrap_or_default()
    }

    pub(super) fn category(&self) -> Option<Cow<'a, str>> {
        self.text_value(Role::Category)
    }

    /// Returns the start time as JSON.
    pub(super) fn time(&self) -> &'a str {
        self.piece(Role::Time).of(self.text)
    }

    /// Returns the duration as JSON; empty if there is none.
    pub(super) fn duration(&self) -> &'a str {
        self.piece(Role::Duration).of(self.text)
    }

    /// Returns the process as JSON; empty if there is none.
    pub(super) fn process(&self) -> &'a str {
        self.piece(Role::Process).of(self.text)
    }

    /// Returns the thread as JSON; empty if there is none.
    pub(super) fn thread(&self) -> &'a str {
        self.piece(Role::Thread).of(self.text)
    }

    /// Returns the id of the flow or track.
    pub(super) fn id(&self) -> Option<Cow<'a, str>> {
        self.text_value(Role::Id)
    }

    /// Returns `id2`, an object that states whether the id is local to the process.
    pub(super) fn id2(&self) -> Option<&'a str> {
        let piece = self.piece(Role::Id2);
        (!piece.is_none()).then(|| piece.of(self.text))
    }

    pub(super) fn scope(&self) -> Option<Cow<'a, str>> {
        self.text_value(Role::Scope)
    }

    /// Returns the letter of an instant's scope.
    pub(super) fn instant_scope(&self) -> Option<Cow<'a, str>> {
        self.text_value(Role::InstantScope)
    }

    /// Whether a flow ends at the enclosing slice.
    pub(super) fn is_enclosed(&self) -> bool {
        self.text_value(Role::Binding).as_deref() == Some("e")
    }

    /// Returns the arguments: unescaped keys, and values as JSON.
    pub(super) fn args(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
        let event = *self;
        event.args.iter().map(move |member| event.member(member))
    }

    /// Returns the values of the arguments as JSON.
    pub(super) fn arg_values(&self) -> impl Iterator<Item = &'a str> {
        let text = self.text;
        self.args.iter().map(move |member| member.value.of(text))
    }

    /// Returns the number of the event's shape, if an earlier event had it. Events of one shape
    /// have the same category and phase, and the same keys of arguments and extra members in the
    /// same order.
    pub(super) fn shape(&self) -> Option<u32> {
        self.pieces.shape
    }

    /// Returns the value of an argument as JSON.
    pub(super) fn arg(&self, key: &str) -> Option<&'a str> {
        self.args().find(|arg| arg.0 == key).map(|arg| arg.1)
    }

    /// Returns the extra members and the arguments.
    pub(super) fn members(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
        let event = *self;
        let extra = event.extra.iter().map(move |member| event.member(member));
        extra.chain(self.args())
    }

    /// Adds the extra members to arguments.
    pub(super) fn add_extra_members(&self, args: &mut NewArgs) {
        for member in self.extra {
            let (key, value) = self.member(member);
            self.add(&key, value, args);
        }
    }

    /// Adds a value, repaired if it is not valid JSON.
    pub(super) fn add(&self, key: &str, value: &str, args: &mut NewArgs) {
        if self.pieces.is_irregular {
            args.json(key, &repaired(value));
        } else if self.pieces.has_escapes {
            args.json(key, value);
        } else {
            args.plain_json(key, value);
        }
    }

    /// Returns all arguments as a JSON object.
    pub(super) fn args_json(&self) -> String {
        let mut object = NewArgs::default();
        for (key, value) in self.args() {
            self.add(&key, value, &mut object);
        }
        let mut json = String::new();
        marey_model::args::fill(&object.template(), object.numbers(), &mut json);
        json
    }

    /// Returns the content of a JSON string; other values are returned unchanged.
    pub(super) fn text_of(&self, json: &'a str) -> Cow<'a, str> {
        match quoted(json) {
            Some(raw) => self.unescape(raw),
            None => Cow::Borrowed(json),
        }
    }

    fn piece(&self, role: Role) -> Piece {
        self.pieces.standard[role as usize]
    }

    fn text_value(&self, role: Role) -> Option<Cow<'a, str>> {
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
