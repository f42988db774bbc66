//! Lines of a script and their words.

use std::collections::VecDeque;
use std::str::FromStr;

/// A syntax error in a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(crate) struct ScriptError {
    /// Line number, from 1.
    pub line: usize,
    pub problem: String,
}

/// A non-empty line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    number: usize,
    /// The words that were not parsed yet.
    words: VecDeque<String>,
}

impl Line {
    /// Parses a line; `None` if it is empty or a comment.
    pub(crate) fn parse(number: usize, text: &str) -> Result<Option<Self>, ScriptError> {
        let mut words = VecDeque::new();
        let mut remaining = text.trim_start();
        while !remaining.is_empty() && !remaining.starts_with('#') {
            let (word, after_word) = if let Some(quoted) = remaining.strip_prefix('"') {
                quoted.split_once('"').ok_or_else(|| ScriptError {
                    line: number,
                    problem: "a quotation mark is not closed".to_owned(),
                })?
            } else {
                remaining.split_at(remaining.find(char::is_whitespace).unwrap_or(remaining.len()))
            };
            words.push_back(word.to_owned());
            remaining = after_word.trim_start();
        }
        Ok((!words.is_empty()).then_some(Self { number, words }))
    }

    pub(crate) fn error(&self, problem: impl Into<String>) -> ScriptError {
        ScriptError { line: self.number, problem: problem.into() }
    }

    /// Returns the next word, if any.
    pub(crate) fn next_word(&mut self) -> Option<String> {
        self.words.pop_front()
    }

    /// Skips the next word if it is this one. Returns whether it was.
    pub(crate) fn skip_word(&mut self, word: &str) -> bool {
        self.words.pop_front_if(|next| next == word).is_some()
    }

    /// Returns the next word, or an error if there is none.
    pub(crate) fn required_word(&mut self, what: &str) -> Result<String, ScriptError> {
        self.next_word().ok_or_else(|| self.error(format!("{what} is missing")))
    }

    /// Parses the next word as a number.
    pub(crate) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, ScriptError> {
        let word = self.required_word(what)?;
        word.replace('_', "")
            .parse()
            .map_err(|_not_a_number| self.error(format!("{what} cannot be {word:?}")))
    }

    /// Parses up to three comma-separated numbers; missing ones are 1.
    pub(crate) fn extent<T: FromStr + Copy>(
        &mut self,
        what: &str,
        default_length: T,
    ) -> Result<[T; 3], ScriptError> {
        let word = self.required_word(what)?;
        let mut extent = [default_length; 3];
        let sides: Vec<_> = word.split(',').collect();
        if sides.len() > 3 {
            return Err(self.error(format!("{what} has more than three dimensions")));
        }
        for (length, side) in extent.iter_mut().zip(sides) {
            *length = side
                .parse()
                .map_err(|_not_a_number| self.error(format!("{what} cannot be {word:?}")))?;
        }
        Ok(extent)
    }

    /// Whether the line opens a block. Removes the brace.
    pub(crate) fn opens_block(&mut self) -> bool {
        self.words.pop_back_if(|word| word == "{").is_some()
    }

    pub(crate) fn closes_block(&self) -> bool {
        self.words == ["}"]
    }

    /// Fails if a word is left.
    pub(crate) fn expect_end(&mut self) -> Result<(), ScriptError> {
        match self.next_word() {
            None => Ok(()),
            Some(word) => Err(self.error(format!("unexpected word {word:?}"))),
        }
    }
}
