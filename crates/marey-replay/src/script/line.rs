//! Lines and their words.

use std::str::FromStr;

/// Why a text is no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(crate) struct ScriptError {
    /// From 1.
    pub line: usize,
    pub problem: String,
}

/// A line with something on it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    number: usize,
    words: Vec<String>,
    next: usize,
}

impl Line {
    /// The lines of a text; `None` for one that is empty or a comment.
    pub(crate) fn parse(number: usize, text: &str) -> Result<Option<Self>, ScriptError> {
        let mut words = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let (word, after) = if let Some(quoted) = rest.strip_prefix('"') {
                quoted.split_once('"').ok_or_else(|| ScriptError {
                    line: number,
                    problem: "a quotation mark is not closed".to_owned(),
                })?
            } else {
                rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()))
            };
            words.push(word.to_owned());
            rest = after.trim_start();
        }
        Ok((!words.is_empty()).then_some(Self { number, words, next: 0 }))
    }

    pub(crate) fn error(&self, problem: impl Into<String>) -> ScriptError {
        ScriptError { line: self.number, problem: problem.into() }
    }

    /// The next word, if there is one.
    pub(crate) fn word(&mut self) -> Option<String> {
        let word = self.words.get(self.next).cloned();
        self.next += 1;
        word
    }

    /// The next word, which must be there.
    pub(crate) fn need(&mut self, what: &str) -> Result<String, ScriptError> {
        self.word().ok_or_else(|| self.error(format!("{what} is missing")))
    }

    /// The next word as a number.
    pub(crate) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, ScriptError> {
        let word = self.need(what)?;
        word.replace('_', "")
            .parse()
            .map_err(|_not_a_number| self.error(format!("{what} cannot be {word:?}")))
    }

    /// Up to three numbers with commas between them; 1 for those that are left out.
    pub(crate) fn extent<T: FromStr + Copy>(
        &mut self,
        what: &str,
        one: T,
    ) -> Result<[T; 3], ScriptError> {
        let word = self.need(what)?;
        let mut extent = [one; 3];
        let sides: Vec<_> = word.split(',').collect();
        if sides.len() > 3 {
            return Err(self.error(format!("{what} has more than three sides")));
        }
        for (to, side) in extent.iter_mut().zip(sides) {
            *to = side
                .parse()
                .map_err(|_not_a_number| self.error(format!("{what} cannot be {word:?}")))?;
        }
        Ok(extent)
    }

    /// Whether the line opens a block; takes the brace away.
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

    /// Nothing may be left.
    pub(crate) fn end(&mut self) -> Result<(), ScriptError> {
        match self.word() {
            None => Ok(()),
            Some(word) => Err(self.error(format!("{word:?} is not understood here"))),
        }
    }
}
