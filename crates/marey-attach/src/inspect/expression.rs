//! Expressions that name a value: a name, its attributes and indexes.

use std::fmt::{self, Display};
use std::iter::Peekable;
use std::str::CharIndices;

use thiserror::Error;

/// Longest expression.
const MAX_EXPRESSION_BYTES: usize = 4096;

/// A name with attributes and indexes, such as `model.layers[3].weight`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    source: String,
    /// The first name.
    name: Spanned<String>,
    steps: Vec<Spanned<PathStep>>,
}

/// A part of an expression, with the position behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spanned<T> {
    content: T,
    end: usize,
}

/// A step from an object to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// `.name`
    Attribute(String),
    /// `[3]`: an index of a sequence, or a key of a dictionary.
    Index(i64),
    /// `["name"]`: a key of a dictionary.
    Key(String),
}

/// Why a text is not an expression that can be inspected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{expression}` cannot be inspected: {reason}, in column {column}")]
pub struct ExpressionError {
    /// The text.
    pub expression: String,
    /// The reason.
    pub reason: &'static str,
    /// Number of the first character that is refused, from 1.
    pub column: usize,
}

impl Expression {
    /// Parses an expression.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Parser { text, characters: text.char_indices().peekable() }.expression().map_err(
            |(reason, position)| ExpressionError {
                expression: text.chars().take(80).collect(),
                reason,
                column: text.char_indices().take_while(|(at, _)| *at < position).count() + 1,
            },
        )
    }

    /// Returns the first name.
    pub fn name(&self) -> &str {
        &self.name.content
    }

    /// Returns the steps from the object of the first name.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = &PathStep> {
        self.steps.iter().map(|step| &step.content)
    }

    /// Returns the text of the first name and the first `count` steps.
    pub(super) fn prefix(&self, count: usize) -> &str {
        let last = count.checked_sub(1).and_then(|last| self.steps.get(last));
        let end = last.map_or(self.name.end, |step| step.end);
        self.source.get(..end).unwrap_or(&self.source)
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

type Refusal = (&'static str, usize);

const RUNS_CODE: &str = "a call would run code of the program";
const NO_OPERATORS: &str = "operators would run code of the program";
const NO_SLICES: &str = "a slice is made by code of the program";
const NO_NAME: &str = "a name is missing";
const NO_INDEX: &str = "an index must be an integer or a text in quotes";
const UNCLOSED_INDEX: &str = "`]` is missing";
const UNCLOSED_TEXT: &str = "the closing quote is missing";
const UNKNOWN_ESCAPE: &str = "the escape is unknown";
const TOO_LONG: &str = "it is longer than 4,096 bytes";
const TOO_LARGE: &str = "the index is too large";
const UNEXPECTED: &str = "only `.name` or `[index]` may follow";

struct Parser<'a> {
    text: &'a str,
    characters: Peekable<CharIndices<'a>>,
}

impl Parser<'_> {
    fn expression(mut self) -> Result<Expression, Refusal> {
        if self.text.len() > MAX_EXPRESSION_BYTES {
            return Err((TOO_LONG, MAX_EXPRESSION_BYTES));
        }
        self.skip_spaces();
        let start = self.position();
        let name = self.name()?;
        let name = Spanned { content: name, end: self.position() - start };
        let mut steps = Vec::new();
        loop {
            self.skip_spaces();
            let content = match self.peek() {
                None => break,
                Some('.') => {
                    self.characters.next();
                    self.skip_spaces();
                    PathStep::Attribute(self.name()?)
                }
                Some('[') => {
                    self.characters.next();
                    self.index()?
                }
                Some(other) => return Err((refusal(other), self.position())),
            };
            steps.push(Spanned { content, end: self.position() - start });
        }
        let source = self.text.get(start..).unwrap_or_default().trim_end().to_owned();
        Ok(Expression { source, name, steps })
    }

    fn name(&mut self) -> Result<String, Refusal> {
        let start = self.position();
        match self.peek() {
            Some(first) if first == '_' || first.is_alphabetic() => {}
            Some(other @ ('(' | '-' | '+' | '~')) => return Err((refusal(other), start)),
            _ => return Err((NO_NAME, start)),
        }
        while self.peek().is_some_and(|it| it == '_' || it.is_alphanumeric()) {
            self.characters.next();
        }
        Ok(self.text.get(start..self.position()).unwrap_or_default().to_owned())
    }

    /// Parses what follows `[`.
    fn index(&mut self) -> Result<PathStep, Refusal> {
        self.skip_spaces();
        let step = match self.peek() {
            Some(quote @ ('"' | '\'')) => {
                self.characters.next();
                PathStep::Key(self.quoted(quote)?)
            }
            Some('-' | '0'..='9') => PathStep::Index(self.integer()?),
            Some(':') => return Err((NO_SLICES, self.position())),
            _ => return Err((NO_INDEX, self.position())),
        };
        self.skip_spaces();
        match self.peek() {
            Some(']') => self.characters.next(),
            Some(':') => return Err((NO_SLICES, self.position())),
            Some(',' | '.') => return Err((NO_INDEX, self.position())),
            Some(other) if refusal(other) != UNEXPECTED => {
                return Err((refusal(other), self.position()));
            }
            _ => return Err((UNCLOSED_INDEX, self.position())),
        };
        Ok(step)
    }

    fn integer(&mut self) -> Result<i64, Refusal> {
        let start = self.position();
        if self.peek() == Some('-') {
            self.characters.next();
        }
        while self.peek().is_some_and(|it| it.is_ascii_digit()) {
            self.characters.next();
        }
        let digits = self.text.get(start..self.position()).unwrap_or_default();
        if digits == "-" {
            return Err((NO_INDEX, start));
        }
        digits.parse().ok().ok_or((TOO_LARGE, start))
    }

    /// Parses what follows the opening quote.
    fn quoted(&mut self, quote: char) -> Result<String, Refusal> {
        let mut content = String::new();
        loop {
            let position = self.position();
            match self.characters.next() {
                None => return Err((UNCLOSED_TEXT, position)),
                Some((_, end)) if end == quote => return Ok(content),
                Some((_, '\\')) => content.push(self.escaped().ok_or((UNKNOWN_ESCAPE, position))?),
                Some((_, other)) => content.push(other),
            }
        }
    }

    /// Parses what follows a backslash.
    fn escaped(&mut self) -> Option<char> {
        let (_, escape) = self.characters.next()?;
        let digits = match escape {
            '\\' | '\'' | '"' => return Some(escape),
            'n' => return Some('\n'),
            't' => return Some('\t'),
            'r' => return Some('\r'),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return None,
        };
        let mut code: u32 = 0;
        for _ in 0..digits {
            code = (code << 4) | self.characters.next()?.1.to_digit(16)?;
        }
        char::from_u32(code)
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.characters.next();
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.characters.peek().map(|(_, character)| *character)
    }

    fn position(&mut self) -> usize {
        self.characters.peek().map_or(self.text.len(), |(position, _)| *position)
    }
}

/// Returns why a character is refused where a step is expected.
const fn refusal(character: char) -> &'static str {
    match character {
        '(' => RUNS_CODE,
        '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | '&' | '|' | '^' | '~' | '@' => {
            NO_OPERATORS
        }
        _ => UNEXPECTED,
    }
}

#[cfg(test)]
#[path = "expression_tests.rs"]
mod tests;
