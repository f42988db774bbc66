//! From bytes to statements.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// Bytes of a statement that are kept. Only tables of constants are longer, and they are not read.
const MAX_STATEMENT_BYTES: usize = 1 << 16;

/// Bytes of a comment that are kept.
const MAX_COMMENT_BYTES: usize = 1 << 12;

/// Bytes within which a block's head says what it is: only linkage stands before that.
const MAX_HEAD_BYTES: usize = 64;

/// Directives that end with their line rather than with a semicolon.
const LINE_DIRECTIVES: [&[u8]; 6] =
    [b".loc", b".file", b".version", b".target", b".address_size", b".amdgcn_target"];

/// A part of the text.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// A directive of one line, and the comment behind it.
    Line { text: Cow<'a, str>, comment: Cow<'a, str> },
    /// A comment of a line without such a directive.
    Comment(Cow<'a, str>),
    /// What ended with a semicolon, or with the block it stands in.
    Statement(Cow<'a, str>),
    /// A block begins, with what stands before it.
    Open(Cow<'a, str>),
    /// A block ends.
    Close,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    /// Code after a `/`, which may begin a comment.
    Slash,
    Text,
    /// Text after a backslash.
    Escape,
    LineComment,
    BlockComment,
    /// A block comment after a `*`, which may end it.
    Star,
}

/// Cuts a text into pieces, a byte at a time.
pub(super) struct Statements {
    state: State,
    statement: Vec<u8>,
    /// Where the current line begins in the statement.
    line_start: usize,
    /// Braces that are open among operands.
    braces: usize,
    comment: Vec<u8>,
    /// Lines that have ended.
    pub(super) lines: u64,
}

impl Statements {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Code,
            statement: Vec::new(),
            line_start: 0,
            braces: 0,
            comment: Vec::new(),
            lines: 0,
        }
    }

    /// Reads to the end and gives each piece as it is complete, until one is refused.
    pub(super) fn read<E: From<io::Error>>(
        &mut self,
        mut source: impl BufRead,
        mut take: impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let bytes = match source.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            if bytes.is_empty() {
                return self.next(b'\n', &mut take);
            }
            for &byte in bytes {
                self.next(byte, &mut take)?;
            }
            let read = bytes.len();
            source.consume(read);
        }
    }

    fn next<E>(
        &mut self,
        byte: u8,
        take: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if byte == b'\n' {
            return self.end_line(take);
        }
        match (self.state, byte) {
            (State::Slash, b'/') => self.state = State::LineComment,
            (State::Slash, b'*') => self.state = State::BlockComment,
            (State::Slash, _) => {
                self.state = State::Code;
                self.keep(b'/');
                return self.code(byte, take);
            }
            (State::Code, b'/') => self.state = State::Slash,
            (State::Code, _) => return self.code(byte, take),
            (State::Text, _) => {
                self.state = match byte {
                    b'"' => State::Code,
                    b'\\' => State::Escape,
                    _ => State::Text,
                };
                self.keep(byte);
            }
            (State::Escape, _) => {
                self.state = State::Text;
                self.keep(byte);
            }
            (State::LineComment, _) => {
                if self.comment.len() < MAX_COMMENT_BYTES {
                    self.comment.push(byte);
                }
            }
            (State::BlockComment | State::Star, b'*') => self.state = State::Star,
            (State::Star, b'/') => self.state = State::Code,
            (State::BlockComment | State::Star, _) => self.state = State::BlockComment,
        }
        Ok(())
    }

    fn code<E>(
        &mut self,
        byte: u8,
        take: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match byte {
            b';' => {
                take(Piece::Statement(text(&self.statement)))?;
                self.clear();
            }
            b'{' if self.braces == 0 && self.is_before_block() => {
                take(Piece::Open(text(&self.statement)))?;
                self.clear();
            }
            b'}' if self.braces == 0 => {
                if !self.statement.is_empty() {
                    take(Piece::Statement(text(&self.statement)))?;
                }
                take(Piece::Close)?;
                self.clear();
            }
            _ => {
                match byte {
                    b'{' => self.braces += 1,
                    b'}' => self.braces -= 1,
                    b'"' => self.state = State::Text,
                    _ => {}
                }
                self.keep(byte);
            }
        }
        Ok(())
    }

    /// Whether a brace here opens a block. Others stand around operands and lists of constants.
    fn is_before_block(&self) -> bool {
        let head = &self.statement[..self.statement.len().min(MAX_HEAD_BYTES)];
        let has = |word: &[u8]| head.windows(word.len()).any(|found| found == word);
        self.statement.trim_ascii().is_empty()
            || self.statement.trim_ascii_start().starts_with(b".")
                && (has(b".entry") || has(b".func") || has(b".section"))
    }

    fn end_line<E>(&mut self, take: &mut impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.state == State::Slash {
            self.keep(b'/');
        }
        // No text goes over the end of a line, and nothing but a block comment does.
        if !matches!(self.state, State::BlockComment | State::Star) {
            self.state = State::Code;
        }
        self.lines += 1;
        let line = self.statement[self.line_start..].trim_ascii();
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if LINE_DIRECTIVES.contains(&word) {
            take(Piece::Line { text: text(line), comment: text(&self.comment) })?;
            self.statement.truncate(self.line_start);
        } else {
            if !self.comment.is_empty() {
                take(Piece::Comment(text(&self.comment)))?;
            }
            if line.ends_with(b":") {
                self.statement.truncate(self.line_start); // a label
            }
            self.keep(b'\n');
        }
        self.line_start = self.statement.len();
        self.comment.clear();
        Ok(())
    }

    fn keep(&mut self, byte: u8) {
        let is_blank = self.statement.is_empty() && byte.is_ascii_whitespace();
        if !is_blank && self.statement.len() < MAX_STATEMENT_BYTES {
            self.statement.push(byte);
        }
    }

    fn clear(&mut self) {
        self.statement.clear();
        self.line_start = 0;
        self.braces = 0;
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(content: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        let taken: io::Result<()> = Statements::new().read(content.as_bytes(), |piece| {
            pieces.push(match piece {
                Piece::Line { text, comment } => format!("line {text} // {comment}"),
                Piece::Comment(text) => format!("// {text}"),
                Piece::Statement(text) => text.into_owned(),
                Piece::Open(text) => format!("{text} {{"),
                Piece::Close => "}".to_owned(),
            });
            Ok(())
        });
        taken.unwrap();
        pieces
    }

    #[test]
    fn braces_open_blocks_or_stand_around_operands() {
        assert_eq!(
            pieces(".func f(.param .b32 a)\n.noreturn\n{ { mov {%r1, %r2}, %r3; } ret;\n}"),
            [".func f(.param .b32 a)\n.noreturn {", " {", "mov {%r1, %r2}, %r3", "}", "ret", "}"]
        );
        assert_eq!(pieces(".global .b8 x[2] = {1, 2};"), [".global .b8 x[2] = {1, 2}"]);
        assert_eq!(
            pieces("\t.section\t.debug_str\n\t{\nx:\n.b8 1\n\t}"),
            [".section\t.debug_str {", ".b8 1", "}"]
        );
    }

    #[test]
    fn directives_of_a_line_need_no_semicolon() {
        assert_eq!(
            pieces("$L1:\n\t.loc 1 2 3 // a.py:2:3\nret;"),
            ["line .loc 1 2 3 // a.py:2:3", "ret"]
        );
        assert_eq!(pieces("mov %r1,\n.loc 1 2 3\n%r2;"), ["line .loc 1 2 3 // ", "mov %r1,\n%r2"]);
    }

    #[test]
    fn texts_and_comments_hide_what_they_contain() {
        assert_eq!(pieces(".file 1 \"a;{//\\\"b\" // c;"), ["line .file 1 \"a;{//\\\"b\" // c;"]);
        assert_eq!(pieces("a /* ; {\n// } **/ b; // c\n"), ["a \n b", "// c"]);
        assert_eq!(pieces("a / b;"), ["a / b"]);
    }

    #[test]
    fn long_statements_are_cut_and_what_follows_is_read() {
        let long = format!(".global .b8 x[] = {{{}}}; ret;", "1, ".repeat(MAX_STATEMENT_BYTES));
        let pieces = pieces(&long);
        assert_eq!((pieces[0].len() <= MAX_STATEMENT_BYTES, pieces[1].as_str()), (true, "ret"));
    }
}
