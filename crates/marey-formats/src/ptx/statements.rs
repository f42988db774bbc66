//! Splitting of PTX into statements.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// Maximum length of a statement in memory. Only tables of constants, which are ignored, are
/// longer.
const MAX_STATEMENT_BYTES: usize = 1 << 16;

/// Maximum length of a comment in memory.
const MAX_COMMENT_BYTES: usize = 1 << 12;

/// Length within which a block's head names its type: only linkage directives precede it.
const MAX_HEAD_BYTES: usize = 64;

/// Directives that end with the line instead of a semicolon.
const LINE_DIRECTIVES: [&[u8]; 6] =
    [b".loc", b".file", b".version", b".target", b".address_size", b".amdgcn_target"];

/// A part of the text.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// A one-line directive, and the comment after it.
    Line { text: Cow<'a, str>, comment: Cow<'a, str> },
    /// The comment of a line without such a directive.
    Comment(Cow<'a, str>),
    /// Code up to a semicolon or the end of the enclosing block.
    Statement(Cow<'a, str>),
    /// The start of a block, with the code before it.
    Open(Cow<'a, str>),
    /// The end of a block.
    Close,
}

/// The state of the tokenizer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    /// After a `/`, which may begin a comment.
    Slash,
    Text,
    /// After a backslash in a string.
    Escape,
    LineComment,
    BlockComment,
    /// After a `*` in a block comment, which may end it.
    Star,
}

/// Splits a text into pieces, byte by byte.
pub(super) struct Statements {
    state: State,
    statement: Vec<u8>,
    /// Start of the current line in the statement.
    line_start: usize,
    /// Open braces among the operands.
    braces: usize,
    comment: Vec<u8>,
    /// Number of complete lines.
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

    /// Reads to the end and passes each piece to `handle`, whose first error ends reading.
    pub(super) fn read<E: From<io::Error>>(
        &mut self,
        mut source: impl BufRead,
        mut handle: impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let bytes = match source.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            if bytes.is_empty() {
                return self.next(b'\n', &mut handle);
            }
            for &byte in bytes {
                self.next(byte, &mut handle)?;
            }
            let read = bytes.len();
            source.consume(read);
        }
    }

    fn next<E>(
        &mut self,
        byte: u8,
        handle: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if byte == b'\n' {
            return self.end_line(handle);
        }
        match (self.state, byte) {
            (State::Slash, b'/') => self.state = State::LineComment,
            (State::Slash, b'*') => self.state = State::BlockComment,
            (State::Slash, _) => {
                self.state = State::Code;
                self.keep(b'/');
                return self.code(byte, handle);
            }
            (State::Code, b'/') => self.state = State::Slash,
            (State::Code, _) => return self.code(byte, handle),
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
        handle: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match byte {
            b';' => {
                handle(Piece::Statement(text(&self.statement)))?;
                self.clear();
            }
            b'{' if self.braces == 0 && self.is_before_block() => {
                handle(Piece::Open(text(&self.statement)))?;
                self.clear();
            }
            b'}' if self.braces == 0 => {
                if !self.statement.is_empty() {
                    handle(Piece::Statement(text(&self.statement)))?;
                }
                handle(Piece::Close)?;
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

    /// Whether a brace opens a block here. Other braces enclose operands or lists of constants.
    fn is_before_block(&self) -> bool {
        let head = &self.statement[..self.statement.len().min(MAX_HEAD_BYTES)];
        let has = |word: &[u8]| head.windows(word.len()).any(|found| found == word);
        self.statement.trim_ascii().is_empty()
            || self.statement.trim_ascii_start().starts_with(b".")
                && (has(b".entry") || has(b".func") || has(b".section"))
    }

    fn end_line<E>(
        &mut self,
        handle: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.state == State::Slash {
            self.keep(b'/');
        }
        // Strings end with the line; only block comments continue.
        if !matches!(self.state, State::BlockComment | State::Star) {
            self.state = State::Code;
        }
        self.lines += 1;
        let line = self.statement[self.line_start..].trim_ascii();
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if LINE_DIRECTIVES.contains(&word) {
            handle(Piece::Line { text: text(line), comment: text(&self.comment) })?;
            self.statement.truncate(self.line_start);
        } else {
            if !self.comment.is_empty() {
                handle(Piece::Comment(text(&self.comment)))?;
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
    fn braces_open_blocks_or_enclose_operands() {
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
    fn one_line_directives_need_no_semicolon() {
        assert_eq!(
            pieces("$L1:\n\t.loc 1 2 3 // a.py:2:3\nret;"),
            ["line .loc 1 2 3 // a.py:2:3", "ret"]
        );
        assert_eq!(pieces("mov %r1,\n.loc 1 2 3\n%r2;"), ["line .loc 1 2 3 // ", "mov %r1,\n%r2"]);
    }

    #[test]
    fn strings_and_comments_hide_their_content() {
        assert_eq!(pieces(".file 1 \"a;{//\\\"b\" // c;"), ["line .file 1 \"a;{//\\\"b\" // c;"]);
        assert_eq!(pieces("a /* ; {\n// } **/ b; // c\n"), ["a \n b", "// c"]);
        assert_eq!(pieces("a / b;"), ["a / b"]);
    }

    #[test]
    fn long_statements_are_truncated_and_the_next_is_read() {
        let long = format!(".global .b8 x[] = {{{}}}; ret;", "1, ".repeat(MAX_STATEMENT_BYTES));
        let pieces = pieces(&long);
        assert_eq!((pieces[0].len() <= MAX_STATEMENT_BYTES, pieces[1].as_str()), (true, "ret"));
    }
}
