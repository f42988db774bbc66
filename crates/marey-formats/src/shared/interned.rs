//! Interned texts.

use std::collections::HashSet;
use std::sync::Arc;

/// Texts that are stored once, because they repeat many times in a file.
#[derive(Debug, Default)]
pub(crate) struct InternedTexts(HashSet<Arc<str>>);

impl InternedTexts {
    /// Returns the stored text. Stores it if it is new.
    pub(crate) fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(interned) = self.0.get(text) {
            return Arc::clone(interned);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }
}
