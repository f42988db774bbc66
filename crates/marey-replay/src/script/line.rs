//! Lines of a script and their words.

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
    words: Vec<String>,
    next_word_index: usize,
}

impl Line {
    /// Parses a line; `None` if it is empty or a comment.
    pub(crate) fn parse(number: usize, text: &str) -> Result<Option<Self>, ScriptError> {
        let mut words = Vec::new();
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
            words.push(word.to_owned());
            remaining = after_word.trim_start();
        }
        Ok((!words.is_empty()).then_some(Self { number, words, next_word_index: 0 }))
    }

    pub(crate) fn error(&self, problem: impl Into<String>) -> ScriptError {
        ScriptError { line: self.number, problem: problem.into() }
    }

    /// Returns the next word, if any.
    pub(crate) fn next_word(&mut self) -> Option<String> {
        let word = self.words.get(self.next_word_index).cloned();
        self.next_word_index += 1;
        word
    }

    /// Skips the next word if it is this one. Returns whether it was.
    pub(crate) fn skip_word(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.next_word_index).is_some_and(|next| next == word);
        self.next_word_index += usize::from(is_next);
        is_next
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
        let opens = self.words.last().is_some_and(|word| word == "{");
        if opens {
            self.words.pop();
        }
        opens
    }

    pub(crate) fn closes_block(&self) -> bool {
        self.words.len() == 1 && self.words[0] == "}"
    }

    /// Fails if a word is left.
    pub(crate) fn expect_end(&mut self) -> Result<(), ScriptError> {
        match self.next_word() {
            None => Ok(()),
            Some(word) => Err(self.error(format!("unexpected word {word:?}"))),
        }
    }
}
