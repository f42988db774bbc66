//! Requests from outside that Python answers, because they are about its variables.
//!
//! The thread of the endpoint hands a request over and waits for the answer, for a limited time. The main thread of
//! Python reads the request at its next line, so an answer may be late: the request stays, and its effect too.

use crate::endpoint::{self, STOP_CHECK_PERIOD};
use crate::lock::lock;
use crate::requests::Requests;
use crate::settings;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time for an answer, during which the endpoint answers no other request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of requests that wait for Python.
const MAX_PENDING: usize = 64;
/// The bit of [`ANSWERED`].
const ANSWER: u32 = 1;

/// The answer to a request: a text, or a sentence without a period.
type Answer = Result<String, String>;

#[derive(Debug)]
struct Mailbox {
    /// Number of the newest request.
    newest: u64,
    pending: VecDeque<(u64, String)>,
    /// Number of the request that Python has read last.
    current: u64,
    answer: Option<(u64, Answer)>,
}

static MAILBOX: Mutex<Mailbox> =
    Mutex::new(Mailbox { newest: 0, pending: VecDeque::new(), current: 0, answer: None });
static ANSWERED: Requests = Requests::new();

/// Passes a request to Python and returns the answer. Only for the thread of the endpoint. Gives up when that thread
/// is to end: a fork or the end of the last session may wait for it on the thread that would answer.
pub(crate) fn ask(request: String) -> Answer {
    let number = {
        let mut mailbox = lock(&MAILBOX);
        if mailbox.pending.len() >= MAX_PENDING {
            return Err("too many requests wait for its main thread".to_owned());
        }
        mailbox.newest += 1;
        let number = mailbox.newest;
        mailbox.pending.push_back((number, request));
        number
    };
    if !settings::notify_listener() {
        lock(&MAILBOX).pending.retain(|(pending, _)| *pending != number);
        return Err("no Python records a trace in it".to_owned());
    }
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    loop {
        if let Some((_, answer)) = lock(&MAILBOX).answer.take_if(|(known, _)| *known == number) {
            return answer;
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() || endpoint::WORKER.is_stopping() {
            return Err("its main thread runs no Python now; the request is answered when it does"
                .to_owned());
        }
        ANSWERED.wait(Some(remaining.min(STOP_CHECK_PERIOD)));
    }
}

/// Removes and returns the oldest request.
pub fn next() -> Option<String> {
    let mut mailbox = lock(&MAILBOX);
    let (number, request) = mailbox.pending.pop_front()?;
    mailbox.current = number;
    Some(request)
}

/// Answers the request that was returned last.
pub fn answer(answer: Answer) {
    let mut mailbox = lock(&MAILBOX);
    mailbox.answer = Some((mailbox.current, answer));
    drop(mailbox);
    ANSWERED.add(ANSWER);
}

/// Takes the lock for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized {
    lock(&MAILBOX)
}

/// Forgets the requests to the parent, in the child of a fork.
pub(crate) fn begin_child() {
    lock(&MAILBOX).pending.clear();
}
