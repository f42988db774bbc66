//! Splits a PTX text into statements, directives, comments and blocks.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// The maximum length of a statement in memory. Only tables of constants are longer, and they are
/// ignored.
const MAX_STATEMENT_BYTES: usize = 1 << 16;

/// The maximum length of a comment in memory.
const MAX_COMMENT_BYTES: usize = 1 << 12;

/// The length within which the head of a block names its type. Only linkage directives precede it.
const MAX_HEAD_BYTES: usize = 64;

/// The directives that end with the line and not with a semicolon.
const LINE_DIRECTIVES: [&[u8]; 6] =
    [b".loc", b".file", b".version", b".target", b".address_size", b".amdgcn_target"];

/// A part of the text.
#[derive(Debug)]
pub(super) enum TextPart<'a> {
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
enum LexerState {
    Code,
    /// After a `/`, which may begin a comment.
    Slash,
    String,
    /// After a backslash in a string.
    StringEscape,
    LineComment,
    BlockComment,
    /// After a `*` in a block comment, which may end it.
    Star,
}

/// Splits a text into parts, byte by byte.
pub(super) struct Statements {
    state: LexerState,
    statement: Vec<u8>,
    /// Start of the current line in the statement.
    line_start: usize,
    /// Open braces among the operands.
    open_braces: usize,
    comment: Vec<u8>,
    /// Number of complete lines.
    pub(super) line_count: u64,
}

impl Statements {
    pub(super) const fn new() -> Self {
        Self {
            state: LexerState::Code,
            statement: Vec::new(),
            line_start: 0,
            open_braces: 0,
            comment: Vec::new(),
            line_count: 0,
        }
    }

    /// Reads to the end and passes each part to `handle`. The first error of `handle` ends the
    /// reading.
    pub(super) fn read<E: From<io::Error>>(
        &mut self,
        mut source: impl BufRead,
        mut handle: impl FnMut(TextPart<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let bytes = match source.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            if bytes.is_empty() {
                return self.push_byte(b'\n', &mut handle);
            }
            for &byte in bytes {
                self.push_byte(byte, &mut handle)?;
            }
            let byte_count = bytes.len();
            source.consume(byte_count);
        }
    }

    fn push_byte<E>(
        &mut self,
        byte: u8,
        handle: &mut impl FnMut(TextPart<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if byte == b'\n' {
            return self.end_line(handle);
        }
        match (self.state, byte) {
            (LexerState::Slash, b'/') => self.state = LexerState::LineComment,
            (LexerState::Slash, b'*') => self.state = LexerState::BlockComment,
            (LexerState::Slash, _) => {
                self.state = LexerState::Code;
                self.append(b'/');
                return self.push_code(byte, handle);
            }
            (LexerState::Code, b'/') => self.state = LexerState::Slash,
            (LexerState::Code, _) => return self.push_code(byte, handle),
            (LexerState::String, _) => {
                self.state = match byte {
                    b'"' => LexerState::Code,
                    b'\\' => LexerState::StringEscape,
                    _ => LexerState::String,
                };
                self.append(byte);
            }
            (LexerState::StringEscape, _) => {
                self.state = LexerState::String;
                self.append(byte);
            }
            (LexerState::LineComment, _) => {
                if self.comment.len() < MAX_COMMENT_BYTES {
                    self.comment.push(byte);
                }
            }
            (LexerState::BlockComment | LexerState::Star, b'*') => self.state = LexerState::Star,
            (LexerState::Star, b'/') => self.state = LexerState::Code,
            (LexerState::BlockComment | LexerState::Star, _) => {
                self.state = LexerState::BlockComment;
            }
        }
        Ok(())
    }

    fn push_code<E>(
        &mut self,
        byte: u8,
        handle: &mut impl FnMut(TextPart<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match byte {
            b';' => {
                handle(TextPart::Statement(text(&self.statement)))?;
                self.clear_statement();
            }
            b'{' if self.open_braces == 0 && self.is_before_block() => {
                handle(TextPart::Open(text(&self.statement)))?;
                self.clear_statement();
            }
            b'}' if self.open_braces == 0 => {
                if !self.statement.is_empty() {
                    handle(TextPart::Statement(text(&self.statement)))?;
                }
                handle(TextPart::Close)?;
                self.clear_statement();
            }
            _ => {
                match byte {
                    b'{' => self.open_braces += 1,
                    b'}' => self.open_braces -= 1,
                    b'"' => self.state = LexerState::String,
                    _ => {}
                }
                self.append(byte);
            }
        }
        Ok(())
    }

    /// Whether a brace opens a block here. Other braces enclose operands or lists of constants.
    fn is_before_block(&self) -> bool {
        let head = &self.statement[..self.statement.len().min(MAX_HEAD_BYTES)];
        let contains = |word: &[u8]| head.windows(word.len()).any(|found| found == word);
        self.statement.trim_ascii().is_empty()
            || self.statement.trim_ascii_start().starts_with(b".")
                && (contains(b".entry") || contains(b".func") || contains(b".section"))
    }

    fn end_line<E>(
        &mut self,
        handle: &mut impl FnMut(TextPart<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.state == LexerState::Slash {
            self.append(b'/');
        }
        // Strings end with the line. Only block comments continue.
        if !matches!(self.state, LexerState::BlockComment | LexerState::Star) {
            self.state = LexerState::Code;
        }
        self.line_count += 1;
        let line = self.statement[self.line_start..].trim_ascii();
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if LINE_DIRECTIVES.contains(&word) {
            handle(TextPart::Line { text: text(line), comment: text(&self.comment) })?;
            self.statement.truncate(self.line_start);
        } else {
            if !self.comment.is_empty() {
                handle(TextPart::Comment(text(&self.comment)))?;
            }
            if line.ends_with(b":") {
                self.statement.truncate(self.line_start); // a label
            }
            self.append(b'\n');
        }
        self.line_start = self.statement.len();
        self.comment.clear();
        Ok(())
    }

    fn append(&mut self, byte: u8) {
        let is_blank = self.statement.is_empty() && byte.is_ascii_whitespace();
        if !is_blank && self.statement.len() < MAX_STATEMENT_BYTES {
            self.statement.push(byte);
        }
    }

    fn clear_statement(&mut self) {
        self.statement.clear();
        self.line_start = 0;
        self.open_braces = 0;
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(content: &str) -> Vec<String> {
        let mut parts = Vec::new();
        let result: io::Result<()> = Statements::new().read(content.as_bytes(), |part| {
            parts.push(match part {
                TextPart::Line { text, comment } => format!("line {text} // {comment}"),
                TextPart::Comment(text) => format!("// {text}"),
                TextPart::Statement(text) => text.into_owned(),
                TextPart::Open(text) => format!("{text} {{"),
                TextPart::Close => "}".to_owned(),
            });
            Ok(())
        });
        result.unwrap();
        parts
    }

    #[test]
    fn braces_open_blocks_or_enclose_operands() {
        assert_eq!(
            parts(".func f(.param .b32 a)\n.noreturn\n{ { mov {%r1, %r2}, %r3; } ret;\n}"),
            [".func f(.param .b32 a)\n.noreturn {", " {", "mov {%r1, %r2}, %r3", "}", "ret", "}"]
        );
        assert_eq!(parts(".global .b8 x[2] = {1, 2};"), [".global .b8 x[2] = {1, 2}"]);
        assert_eq!(
            parts("\t.section\t.debug_str\n\t{\nx:\n.b8 1\n\t}"),
            [".section\t.debug_str {", ".b8 1", "}"]
        );
    }

    #[test]
    fn one_line_directives_need_no_semicolon() {
        assert_eq!(
            parts("$L1:\n\t.loc 1 2 3 // a.py:2:3\nret;"),
            ["line .loc 1 2 3 // a.py:2:3", "ret"]
        );
        assert_eq!(parts("mov %r1,\n.loc 1 2 3\n%r2;"), ["line .loc 1 2 3 // ", "mov %r1,\n%r2"]);
    }

    #[test]
    fn strings_and_comments_hide_their_content() {
        assert_eq!(parts(".file 1 \"a;{//\\\"b\" // c;"), ["line .file 1 \"a;{//\\\"b\" // c;"]);
        assert_eq!(parts("a /* ; {\n// } **/ b; // c\n"), ["a \n b", "// c"]);
        assert_eq!(parts("a / b;"), ["a / b"]);
    }

    #[test]
    fn long_statements_are_truncated_and_the_next_is_read() {
        let long = format!(".global .b8 x[] = {{{}}}; ret;", "1, ".repeat(MAX_STATEMENT_BYTES));
        let parts = parts(&long);
        assert_eq!((parts[0].len() <= MAX_STATEMENT_BYTES, parts[1].as_str()), (true, "ret"));
    }
}
