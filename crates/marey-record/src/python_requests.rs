//! Requests from outside that only Python can answer: for a sample of its stacks, for the last
//! collective, and about its watched variables.
//!
//! The endpoint's thread passes on one request at a time and waits for the answer, for a limited
//! time and as long as the client does. Then it withdraws a request that Python has not read. The
//! sampling thread answers requests for samples and collectives. Python's main thread answers
//! requests about watches at its next line.

use crate::endpoint::{self, STOP_CHECK_PERIOD};
use crate::lock::lock;
use crate::requests::Requests;
use crate::sampling;
use crate::settings;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest wait for an answer. Meanwhile the endpoint answers no other request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest attempt to let Python know of a changed setting.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);
/// The bit of [`ANSWERED`] that says that an answer is there.
const ANSWER: u32 = 1;

/// The kinds of requests to Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A sample of the stacks of all threads. The answer is the number of threads in it.
    Sample,
    /// The last collective of `torch.distributed`. The answer is a JSON object, or `null`.
    Collective,
    /// A request about watches, whose text is as the endpoint has read it. The answer is a JSON list
    /// of the watches.
    Watches,
}

/// The answer to a request: a text, or an error as a sentence without a period.
type Answer = Result<String, String>;

/// The progress of the current request.
#[derive(Debug)]
enum Progress {
    /// There is no request.
    Idle,
    /// Python has not read the request, which has this text.
    Pending(RequestKind, String),
    /// Python has read the request: the sampling thread, or the main thread one about watches.
    Read(RequestKind),
    /// Python has answered.
    Answered(Answer),
}

static PROGRESS: Mutex<Progress> = Mutex::new(Progress::Idle);
static ANSWERED: Requests = Requests::new();

/// Passes a request to Python and returns the answer. Only the endpoint's thread may call this.
/// Gives up when the client is gone, and when the endpoint's thread is to end: a fork or the end of
/// the last session may be waiting for that on the very thread that would answer.
pub(crate) fn ask(kind: RequestKind, text: String, has_client_gone: &dyn Fn() -> bool) -> Answer {
    *lock(&PROGRESS) = Progress::Pending(kind, text);
    sampling::wake();
    let answer = match settings::notify_listener() {
        Some(has_noticed) => wait(has_noticed, has_client_gone),
        None => Err("no Python records a trace in it".to_owned()),
    };
    *lock(&PROGRESS) = Progress::Idle;
    answer
}

/// Lets Python know that a setting was changed. Returns whether it will read it, also if there is no
/// Python that would. Only the endpoint's thread may call this. Gives up as [`ask`] does.
pub(crate) fn notify(has_client_gone: &dyn Fn() -> bool) -> bool {
    let deadline = Instant::now() + NOTICE_TIMEOUT;
    while settings::notify_listener() == Some(false) {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() || endpoint::WORKER.is_stopping() || has_client_gone() {
            return false;
        }
        ANSWERED.wait(Some(remaining.min(STOP_CHECK_PERIOD)));
    }
    true
}

fn wait(mut has_noticed: bool, has_client_gone: &dyn Fn() -> bool) -> Answer {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    loop {
        // The queue in which Python finds the notice may have been full.
        has_noticed = has_noticed || settings::notify_listener() == Some(true);
        let is_read = match &mut *lock(&PROGRESS) {
            Progress::Answered(answer) => return std::mem::replace(answer, Ok(String::new())),
            progress => !matches!(progress, Progress::Pending(..)),
        };
        if endpoint::WORKER.is_stopping() {
            return Err("it forks or ends its recording; try again".to_owned());
        }
        if has_client_gone() {
            return Err("the client has gone".to_owned());
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(timeout_message(is_read));
        }
        ANSWERED.wait(Some(remaining.min(STOP_CHECK_PERIOD)));
    }
}

fn timeout_message(is_read: bool) -> String {
    let secs = ANSWER_TIMEOUT.as_secs();
    let effect = if is_read { "it may still carry it out" } else { "the request was withdrawn" };
    format!(
        "its Python has not answered for {secs} s; {effect}; `marey dump` reads its stacks from outside"
    )
}

/// Whether a request for a sample is pending.
pub(crate) fn is_sample_pending() -> bool {
    matches!(*lock(&PROGRESS), Progress::Pending(RequestKind::Sample, _))
}

/// Reads the request if it is of this kind. Returns its text, which is empty but for watches.
pub fn read(kind: RequestKind) -> Option<String> {
    let mut progress = lock(&PROGRESS);
    match &mut *progress {
        Progress::Pending(pending, text) if *pending == kind => {
            let text = std::mem::take(text);
            *progress = Progress::Read(kind);
            Some(text)
        }
        _ => None,
    }
}

/// Answers the request of this kind that was read, unless the endpoint has given up.
pub fn answer(kind: RequestKind, answer: Answer) {
    let mut progress = lock(&PROGRESS);
    if matches!(*progress, Progress::Read(read) if read == kind) {
        *progress = Progress::Answered(answer);
        drop(progress);
        ANSWERED.add(ANSWER);
    }
}

/// Takes the lock for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized {
    lock(&PROGRESS)
}

/// Forgets the parent's request, in the child of a fork.
pub(crate) fn begin_child() {
    *lock(&PROGRESS) = Progress::Idle;
}
