//! Represents an event as ranges of its text, so that members are parsed only when they are used.

use std::borrow::Cow;

use marey_model::args::NewArgs;

use super::lexer::{LexError, Lexer, Member, TextRange};
use super::number::string_content;
use super::shape::Shapes;
use super::text::{repair_json, unescape};

/// The ranges of an event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventRanges {
    /// The values of the standard members, by [`Role`].
    standard: [TextRange; Role::STANDARD.len()],
    /// The start and the end of its other members in [`Members`].
    members: [MemberCounts; 2],
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
    /// The roles whose values are stored in [`EventRanges`].
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
    fn from_key(key: &[u8]) -> Option<Self> {
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

    /// Returns the role of the key at the start of `bytes`, and the length of the key. All keys
    /// except `scope` are short enough.
    #[inline]
    fn from_prefix(bytes: [u8; 8]) -> Option<(Self, usize)> {
        let len = bytes[..5].iter().position(|byte| *byte == b'"')?;
        Self::from_key(&bytes[..len]).map(|role| (role, len))
    }
}

/// The arguments of events, and the members beyond the standard ones.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) args: Vec<Member>,
    pub(super) extra: Vec<Member>,
}

/// The numbers of arguments and extra members.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemberCounts {
    args: u32,
    extra: u32,
}

impl Members {
    pub(super) fn counts(&self) -> MemberCounts {
        MemberCounts { args: self.args.len() as u32, extra: self.extra.len() as u32 }
    }

    pub(super) fn truncate(&mut self, counts: MemberCounts) {
        self.args.truncate(counts.args as usize);
        self.extra.truncate(counts.extra as usize);
    }
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    text: &'a str,
    ranges: &'a EventRanges,
    args: &'a [Member],
    extra: &'a [Member],
    /// File offset.
    pub(super) offset: u64,
}

impl EventRanges {
    /// Finds the ranges of the event at the start of `bytes` and returns its length. Appends its
    /// other members to `members`.
    pub(super) fn parse(
        &mut self,
        bytes: &[u8],
        members: &mut Members,
        shapes: &mut Shapes,
    ) -> Result<usize, LexError> {
        let start = members.counts();
        if let Some((len, shape)) = shapes.match_event(bytes, self, members) {
            self.members = [start, members.counts()];
            self.shape = Some(shape);
            return Ok(len);
        }
        let mut lexer = Lexer::new(bytes);
        let result = self.parse_with_lexer(&mut lexer, members, start);
        if let Err(error) = result {
            members.truncate(start);
            return Err(error);
        }
        self.members = [start, members.counts()];
        self.has_escapes = lexer.has_escapes;
        self.is_irregular = lexer.is_irregular;
        if !self.has_escapes && !self.is_irregular {
            let Members { args, extra } = members;
            let members = [&args[start.args as usize..], &extra[start.extra as usize..]];
            shapes.learn(&bytes[..lexer.position()], self, members);
        }
        Ok(lexer.position())
    }

    /// Returns the values of the standard members that are present.
    pub(super) fn standard(&self) -> impl Iterator<Item = (Role, TextRange)> {
        let all = Role::STANDARD.map(|role| (role, self.standard[role as usize]));
        all.into_iter().filter(|(_, value)| !value.is_none())
    }

    #[inline]
    pub(super) fn set(&mut self, role: Role, value: TextRange) {
        self.standard[role as usize] = value;
    }

    fn parse_with_lexer(
        &mut self,
        lexer: &mut Lexer,
        members: &mut Members,
        start: MemberCounts,
    ) -> Result<(), LexError> {
        lexer.read_object_with(|lexer| {
            let standard = lexer.try_read_key(Role::from_prefix)?;
            let (role, key) = if let Some((role, key)) = standard {
                (Some(role), key)
            } else {
                let key = lexer.read_key()?;
                (Role::from_key(lexer.bytes_of(key)), key)
            };
            match role {
                Some(Role::Args) if lexer.peek()? == b'{' => {
                    members.args.truncate(start.args as usize); // the last `args` count
                    lexer.read_object(|lexer, key| {
                        let value = lexer.read_value()?;
                        members.args.push(Member { key, value });
                        Ok(())
                    })
                }
                Some(Role::Args) | None => {
                    let value = lexer.read_value()?;
                    members.extra.push(Member { key, value });
                    Ok(())
                }
                Some(role) => {
                    self.set(role, lexer.read_value()?);
                    Ok(())
                }
            }
        })
    }

    /// Returns the event with these ranges.
    pub(super) fn event<'a>(
        &'a self,
        text: &'a str,
        members: &'a Members,
        offset: u64,
    ) -> Event<'a> {
        let [start, end] = self.members;
        let args = &members.args[start.args as usize..end.args as usize];
        let extra = &members.extra[start.extra as usize..end.extra as usize];
        Event { text, ranges: self, args, extra, offset }
    }
}

impl<'a> Event<'a> {
    /// Returns the letter of the event's phase.
    pub(super) fn phase(&self) -> Option<u8> {
        match self.range(Role::Phase).slice(self.text).as_bytes() {
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
        self.range(Role::Time).slice(self.text)
    }

    /// Returns the duration as JSON, empty if there is none.
    pub(super) fn duration(&self) -> &'a str {
        self.range(Role::Duration).slice(self.text)
    }

    /// Returns the process as JSON, empty if there is none.
    pub(super) fn process(&self) -> &'a str {
        self.range(Role::Process).slice(self.text)
    }

    /// Returns the thread as JSON, empty if there is none.
    pub(super) fn thread(&self) -> &'a str {
        self.range(Role::Thread).slice(self.text)
    }

    /// Returns the id of the flow or track.
    pub(super) fn id(&self) -> Option<Cow<'a, str>> {
        self.text_value(Role::Id)
    }

    /// Returns `id2`, an object that states whether the id is local to the process.
    pub(super) fn id2(&self) -> Option<&'a str> {
        let range = self.range(Role::Id2);
        (!range.is_none()).then(|| range.slice(self.text))
    }

    pub(super) fn scope(&self) -> Option<Cow<'a, str>> {
        self.text_value(Role::Scope)
    }

    /// Returns the letter of an instant's scope.
    pub(super) fn instant_scope(&self) -> Option<Cow<'a, str>> {
        self.text_value(Role::InstantScope)
    }

    /// Whether a flow ends at the enclosing slice.
    pub(super) fn binds_to_enclosing_slice(&self) -> bool {
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
        self.args.iter().map(move |member| member.value.slice(text))
    }

    /// Returns the number of the event's shape, if an earlier event had it. Events of one shape
    /// have the same category and phase, and the same keys of arguments and extra members in the
    /// same order.
    pub(super) fn shape(&self) -> Option<u32> {
        self.ranges.shape
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
            self.add_arg(&key, value, args);
        }
    }

    /// Adds a value, repaired if it is not valid JSON.
    pub(super) fn add_arg(&self, key: &str, value: &str, args: &mut NewArgs) {
        if self.ranges.is_irregular {
            args.json(key, &repair_json(value));
        } else if self.ranges.has_escapes {
            args.json(key, value);
        } else {
            args.plain_json(key, value);
        }
    }

    /// Returns all arguments as a JSON object.
    pub(super) fn args_json(&self) -> String {
        let mut object = NewArgs::default();
        for (key, value) in self.args() {
            self.add_arg(&key, value, &mut object);
        }
        let mut json = String::new();
        marey_model::args::fill(&object.template(), object.numbers(), &mut json);
        json
    }

    /// Returns the content of a JSON string, and any other value unchanged.
    pub(super) fn unquote(&self, json: &'a str) -> Cow<'a, str> {
        match string_content(json) {
            Some(raw) => self.unescape(raw),
            None => Cow::Borrowed(json),
        }
    }

    fn range(&self, role: Role) -> TextRange {
        self.ranges.standard[role as usize]
    }

    fn text_value(&self, role: Role) -> Option<Cow<'a, str>> {
        let range = self.range(role);
        (!range.is_none()).then(|| self.unquote(range.slice(self.text)))
    }

    fn member(&self, member: &Member) -> (Cow<'a, str>, &'a str) {
        (self.unescape(member.key.slice(self.text)), member.value.slice(self.text))
    }

    fn unescape(&self, raw: &'a str) -> Cow<'a, str> {
        if self.ranges.has_escapes { unescape(raw) } else { Cow::Borrowed(raw) }
    }
}
