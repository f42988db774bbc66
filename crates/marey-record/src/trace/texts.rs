//! The texts of a spool: gives each text an id, and writes it once, before its first use.

use crate::losses;
use crate::names::{self, LOST_NAME};
use marey_model::loss::LossCause;
use marey_model::spool::SpoolFrame;
use std::collections::HashMap;
use std::sync::Arc;

/// The ids that texts have in the spool, by the ids that they have in the recorder.
#[derive(Debug, Default)]
pub(super) struct SpoolTexts {
    scope_name_ids: HashMap<u32, u32>,
    metric_name_ids: HashMap<u32, u32>,
    /// The arguments of spans, whose ids are separate from those of other texts.
    args_ids: HashMap<u32, u32>,
    unwritten_args: Vec<String>,
    len: u32,
    /// The texts that are not written yet. They are the ones with the highest ids.
    unwritten_texts: Vec<String>,
    unwritten_bytes: usize,
}

/// The maximum size of a text in bytes. A frame holds at most 16 such texts.
const MAX_TEXT_BYTES: usize = 1 << 20;

impl SpoolTexts {
    /// Returns the id that a scope's name has in the spool.
    pub(super) fn scope_name_id(&mut self, name_id: u32) -> u32 {
        if let Some(&spool_id) = self.scope_name_ids.get(&name_id) {
            return spool_id;
        }
        let spool_id = self.add(&names::name(name_id));
        self.scope_name_ids.insert(name_id, spool_id);
        spool_id
    }

    /// Returns the id that a metric's name, as the user wrote it, has in the spool.
    pub(super) fn metric_name_id(&mut self, metric_id: u32) -> u32 {
        if let Some(&spool_id) = self.metric_name_ids.get(&metric_id) {
            return spool_id;
        }
        let spool_id = self.add(&names::metric_text(metric_id));
        self.metric_name_ids.insert(metric_id, spool_id);
        spool_id
    }

    /// Returns the id that a span's arguments, an interned text, have in the spool.
    pub(super) fn args_id(&mut self, text_id: u32) -> u32 {
        let next_id = self.args_ids.len() as u32;
        *self.args_ids.entry(text_id).or_insert_with(|| {
            let text = names::text(text_id);
            self.unwritten_bytes += text.len();
            self.unwritten_args.push(text.as_ref().to_owned());
            next_id
        })
    }

    /// Adds a text and returns its id.
    pub(super) fn add(&mut self, text: &Arc<str>) -> u32 {
        let text = text_or_lost(text);
        self.unwritten_bytes += text.len();
        self.unwritten_texts.push(text.to_owned());
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
        let texts = std::mem::take(&mut self.unwritten_texts);
        let args = std::mem::take(&mut self.unwritten_args);
        let first_id = self.len - texts.len() as u32;
        let first_args_id = (self.args_ids.len() - args.len()) as u32;
        let texts = (!texts.is_empty()).then_some(SpoolFrame::Strings { first_id, texts });
        let args = (!args.is_empty())
            .then_some(SpoolFrame::SpanArgs { first_id: first_args_id, texts: args });
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
