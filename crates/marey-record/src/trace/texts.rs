//! The table of texts of a spool: gives each text a number, and writes it once, before its first
//! use.

use crate::losses;
use crate::names::{self, LOST_NAME};
use marey_model::loss::LossCause;
use marey_model::spool::SpoolFrame;
use std::collections::HashMap;
use std::sync::Arc;

/// The texts that have a number in the spool, by their ids in the recorder.
#[derive(Debug, Default)]
pub(super) struct Texts {
    scope_names: HashMap<u32, u32>,
    metric_names: HashMap<u32, u32>,
    /// The arguments of spans, whose numbers are separate from those of other texts.
    args: HashMap<u32, u32>,
    unwritten_args: Vec<String>,
    len: u32,
    /// The texts that are not written yet. They are the ones with the highest numbers.
    unwritten: Vec<String>,
    unwritten_bytes: usize,
}

/// The maximum size of a text in bytes. A frame holds at most 16 such texts.
const MAX_TEXT_BYTES: usize = 1 << 20;

impl Texts {
    /// Returns the number of a scope's name.
    pub(super) fn scope_name(&mut self, name: u32) -> u32 {
        if let Some(&number) = self.scope_names.get(&name) {
            return number;
        }
        let number = self.add(&names::name(name));
        self.scope_names.insert(name, number);
        number
    }

    /// Returns the number of a metric's name, as the user wrote it.
    pub(super) fn metric_name(&mut self, metric: u32) -> u32 {
        if let Some(&number) = self.metric_names.get(&metric) {
            return number;
        }
        let number = self.add(&names::metric_text(metric));
        self.metric_names.insert(metric, number);
        number
    }

    /// Returns the number in the spool of a span's arguments, given as an interned text's id.
    pub(super) fn args(&mut self, text: u32) -> u32 {
        let next = self.args.len() as u32;
        *self.args.entry(text).or_insert_with(|| {
            let text = names::text(text);
            self.unwritten_bytes += text.len();
            self.unwritten_args.push(text.as_ref().to_owned());
            next
        })
    }

    /// Adds a text and returns its number.
    pub(super) fn add(&mut self, text: &Arc<str>) -> u32 {
        let text = text_or_lost(text);
        self.unwritten_bytes += text.len();
        self.unwritten.push(text.to_owned());
        self.len += 1;
        self.len - 1
    }

    /// Returns the number of bytes that are not written yet.
    pub(super) const fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }

    /// Takes the texts that are not written yet.
    pub(super) fn take_unwritten(&mut self) -> impl Iterator<Item = SpoolFrame> {
        self.unwritten_bytes = 0;
        let texts = std::mem::take(&mut self.unwritten);
        let args = std::mem::take(&mut self.unwritten_args);
        let first = self.len - texts.len() as u32;
        let first_args = (self.args.len() - args.len()) as u32;
        let texts = (!texts.is_empty()).then_some(SpoolFrame::Strings { first, texts });
        let args =
            (!args.is_empty()).then_some(SpoolFrame::SpanArgs { first: first_args, texts: args });
        texts.into_iter().chain(args)
    }
}

/// Returns the text, or `<lost>` if it is too long for a frame.
pub(super) fn text_or_lost(text: &str) -> &str {
    if text.len() <= MAX_TEXT_BYTES {
        return text;
    }
    losses::count(LossCause::Names);
    LOST_NAME
}
