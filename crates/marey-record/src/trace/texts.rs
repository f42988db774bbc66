//! The texts of a spool: each is written once, before its first use.

use crate::losses;
use crate::names::{self, LOST_NAME};
use marey_model::loss::LossCause;
use marey_model::spool::Frame;
use std::collections::HashMap;
use std::sync::Arc;

/// Texts that have a number in the spool.
#[derive(Debug, Default)]
pub(super) struct Texts {
    scopes: HashMap<u32, u32>,
    metrics: HashMap<u32, u32>,
    len: u32,
    /// Those that are not written yet; they have the last numbers.
    fresh: Vec<String>,
    fresh_bytes: usize,
}

/// Most bytes of a text; a frame takes no more than 16 of them.
const MAX_TEXT_BYTES: usize = 1 << 20;

impl Texts {
    /// Number of a scope's name.
    pub(super) fn scope(&mut self, name: u32) -> u32 {
        if let Some(&number) = self.scopes.get(&name) {
            return number;
        }
        let number = self.add(&names::name(name));
        self.scopes.insert(name, number);
        number
    }

    /// Number of a metric's name, as its user wrote it.
    pub(super) fn metric(&mut self, metric: u32) -> u32 {
        if let Some(&number) = self.metrics.get(&metric) {
            return number;
        }
        let number = self.add(&names::metric_text(metric));
        self.metrics.insert(metric, number);
        number
    }

    /// Number of a text that is no name.
    pub(super) fn add(&mut self, text: &Arc<str>) -> u32 {
        let text = kept(text);
        self.fresh_bytes += text.len();
        self.fresh.push(text.to_owned());
        self.len += 1;
        self.len - 1
    }

    /// Bytes that wait to be written.
    pub(super) const fn fresh_bytes(&self) -> usize {
        self.fresh_bytes
    }

    /// What is not written yet, if anything.
    pub(super) fn take_fresh(&mut self) -> Option<Frame> {
        if self.fresh.is_empty() {
            return None;
        }
        self.fresh_bytes = 0;
        let texts = std::mem::take(&mut self.fresh);
        Some(Frame::Strings { first: self.len - texts.len() as u32, texts })
    }
}

/// The text, unless it is too long for a frame.
pub(super) fn kept(text: &str) -> &str {
    if text.len() <= MAX_TEXT_BYTES {
        return text;
    }
    losses::count(LossCause::Names);
    LOST_NAME
}
