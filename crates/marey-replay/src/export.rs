//! Functions of the C interface, with their call counts and scripted failures.

use crate::{lock, settings};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

pub(crate) struct Export {
    name: &'static str,
    call_count: AtomicU64,
    is_listed: AtomicBool,
}

static EXPORTS: Mutex<Vec<&'static Export>> = Mutex::new(Vec::new());
static FAILURES: RwLock<Vec<Failure>> = RwLock::new(Vec::new());
static HAS_FAILURES: AtomicBool = AtomicBool::new(false);

/// Special code: the call does not return.
pub(crate) const NEVER_RETURNS: i32 = i32::MIN;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Name of the function; a final star matches any suffix.
    pub function: String,
    pub code: i32,
    /// Number of the failing call, from 1; every call if absent.
    pub call_number: Option<u64>,
}

impl Failure {
    fn matches(&self, function: &str, call_number: u64) -> bool {
        let matches_name = match self.function.strip_suffix('*') {
            Some(start) => function.starts_with(start),
            None => self.function == function,
        };
        matches_name && self.call_number.is_none_or(|failing| failing == call_number)
    }
}

impl Export {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, call_count: AtomicU64::new(0), is_listed: AtomicBool::new(false) }
    }

    /// Counts a call. Returns its scripted failure code, if any.
    pub(crate) fn count_call(&'static self) -> Option<i32> {
        if !self.is_listed.load(Ordering::Acquire) {
            settings::ensure_loaded();
            self.register();
        }
        let call_number = self.call_count.fetch_add(1, Ordering::Relaxed) + 1;
        if !HAS_FAILURES.load(Ordering::Acquire) {
            return None;
        }
        let code = self.failure_code(call_number);
        while code == Some(NEVER_RETURNS) {
            std::thread::park();
        }
        code
    }

    fn failure_code(&self, call_number: u64) -> Option<i32> {
        let failures = FAILURES.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        failures
            .iter()
            .find(|failure| failure.matches(self.name, call_number))
            .map(|failure| failure.code)
    }

    fn register(&'static self) {
        let mut exports = lock(&EXPORTS);
        if !self.is_listed.swap(true, Ordering::AcqRel) {
            exports.push(self);
        }
    }
}

/// Replaces the failures and resets the counts.
pub(crate) fn reset(failures: Vec<Failure>) {
    HAS_FAILURES.store(!failures.is_empty(), Ordering::Release);
    *FAILURES.write().unwrap_or_else(std::sync::PoisonError::into_inner) = failures;
    for export in lock(&EXPORTS).iter() {
        export.call_count.store(0, Ordering::Relaxed);
    }
}

/// Returns the number of calls of a function since the script was loaded.
pub(crate) fn call_count(function: &str) -> u64 {
    let exports = lock(&EXPORTS);
    exports
        .iter()
        .find(|export| export.name == function)
        .map_or(0, |export| export.call_count.load(Ordering::Relaxed))
}
