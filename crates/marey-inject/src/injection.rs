//! Calls a function of marey in another process: checks the process, writes the request, and waits
//! for the answer.

use std::fmt::Write as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use marey_attach::AttachError;
use marey_attach::stop::{StopError, StoppedTime, while_stopped};

use crate::InjectError;
use crate::interpreter::{Attempt, RequestPlace};
use crate::mailbox::Mailbox;
use crate::target;

/// The script that runs in the process, without its constants.
const BOOTSTRAP: &str = include_str!("bootstrap.py");
/// The maximum time for all attempts to place the request.
const PLACE_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum time for all threads to stop in one attempt.
const STOP_TIMEOUT: Duration = Duration::from_millis(20);
/// The pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(2);
/// The pause after an attempt in which a thread did not stop in time. It is long, so that the other
/// threads run most of the time.
const LATE_PAUSE: Duration = Duration::from_millis(100);
/// The time between two checks whether the process lives and has seen the request.
const CHECK_PAUSE: Duration = Duration::from_millis(100);

/// A function of the module `marey._attached` to call, and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct RemoteCall<'a> {
    /// Folder of the package `marey`.
    pub package: &'a Path,
    /// Version of the package.
    pub version: &'a str,
    /// Name of the function, which takes keyword arguments and returns a list of strings.
    pub function: &'a str,
    /// Arguments by name, as expressions of Python.
    pub arguments: &'a [(&'a str, String)],
}

/// A call in progress. If it is dropped before the function has begun, the call does not happen.
#[derive(Debug)]
pub struct Injection {
    pid: u32,
    request_place: RequestPlace,
    mailbox: Mailbox,
    stopped_time: StoppedTime,
    has_begun: bool,
}

/// The state of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallProgress {
    /// The interpreter has not looked at the request yet.
    Waiting,
    /// The function runs.
    Running,
    /// The function has returned these strings. The first one is the kind of the answer.
    Answered(Vec<String>),
}

impl Injection {
    /// Requests a call in a process.
    pub fn begin(pid: u32, call: RemoteCall<'_>) -> Result<Self, InjectError> {
        target::check(pid)?;
        check_package(pid, call.package)?;
        let request_place = RequestPlace::find(pid)?;
        let script_error = |error| InjectError::Script { pid, error };
        let mailbox = Mailbox::create(pid).map_err(script_error)?;
        let script =
            mailbox.store(pid, &script(pid, call, &mailbox.pipe_path())).map_err(script_error)?;
        let mut injection = Self {
            pid,
            request_place,
            mailbox,
            stopped_time: StoppedTime::default(),
            has_begun: false,
        };
        injection.place(&script)?;
        Ok(injection)
    }

    /// Returns the time for which the process was stopped, in all attempts to place the request.
    pub const fn stopped_time(&self) -> StoppedTime {
        self.stopped_time
    }

    /// Waits for the answer, at most for `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<CallProgress, InjectError> {
        let deadline = Instant::now() + timeout;
        loop {
            let pause = deadline.saturating_duration_since(Instant::now()).min(CHECK_PAUSE);
            let line = self.mailbox.receive(pause);
            match line.map_err(|error| InjectError::Script { pid: self.pid, error })? {
                Some(line) if self.has_begun => {
                    return Ok(CallProgress::Answered(
                        line.split('\0').map(str::to_owned).collect(),
                    ));
                }
                Some(_) => self.has_begun = true,
                None if !marey_attach::is_alive(self.pid) => {
                    return Err(InjectError::Ended(self.pid));
                }
                None if pause.is_zero() && self.has_begun => return Ok(CallProgress::Running),
                None if pause.is_zero() => return Ok(CallProgress::Waiting),
                None if self.has_begun => {}
                None => self.request_place.remind(),
            }
        }
    }

    /// Stops the process and writes the request. Repeats this while another request is in the
    /// place.
    fn place(&mut self, script: &str) -> Result<(), InjectError> {
        let (pid, request_place) = (self.pid, &mut self.request_place);
        let start = Instant::now();
        loop {
            let place = || request_place.place(script);
            let attempt = while_stopped(pid, STOP_TIMEOUT, &mut self.stopped_time, place);
            let reason = match attempt {
                Ok(Attempt::Placed) => return Ok(()),
                Ok(Attempt::Unexpected(reason)) => {
                    return Err(InjectError::Unsupported { pid, reason });
                }
                Ok(Attempt::Later(reason)) => reason.to_owned(),
                Err(ref error) => error.reason(),
            };
            if !marey_attach::is_alive(pid) {
                return Err(AttachError::NoProcess(pid).into());
            }
            if start.elapsed() > PLACE_TIMEOUT {
                target::check_tracer(pid)?;
                if matches!(attempt, Err(StopError::Refused)) {
                    return Err(AttachError::Forbidden(pid).into());
                }
                return Err(InjectError::Busy { pid, reason });
            }
            let has_timed_out = matches!(attempt, Err(StopError::TimedOut(_)));
            thread::park_timeout(if has_timed_out { LATE_PAUSE } else { RETRY_PAUSE });
        }
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        let (request_place, has_run) = (&mut self.request_place, self.has_begun);
        if has_run {
            request_place.withdraw(true);
        } else {
            // If the process cannot be stopped, the request stays. The script is then gone with its
            // folder, so the request does nothing.
            let withdraw = || request_place.withdraw(false);
            drop(while_stopped(self.pid, STOP_TIMEOUT, &mut self.stopped_time, withdraw));
        }
    }
}

/// Returns an error if the process cannot see the package.
fn check_package(pid: u32, package: &Path) -> Result<(), InjectError> {
    if target::path_through_proc(pid, package).join("__init__.py").is_file() {
        return Ok(());
    }
    let (inner_pid, path) = (target::inner_pid(pid), package.display().to_string());
    Err(InjectError::NotInstalled { pid, inner_pid, path })
}

/// Returns the script with its constants.
fn script(pid: u32, call: RemoteCall<'_>, answers: &str) -> String {
    let mut script = String::new();
    let parent = call.package.parent().unwrap_or(call.package);
    let constants = [
        ("PID", target::inner_pid(pid).to_string()),
        ("ANSWERS", python_literal(answers)),
        ("PARENT", python_literal(&parent.to_string_lossy())),
        ("VERSION", python_literal(call.version)),
        ("FUNCTION", python_literal(call.function)),
    ];
    for (name, value) in constants {
        writeln!(script, "{name} = {value}").expect("writing to memory");
    }
    script.push_str("ARGUMENTS = {");
    for (name, value) in call.arguments {
        write!(script, "{}: {value}, ", python_literal(name)).expect("writing to memory");
    }
    script.push_str("}\n");
    script + BOOTSTRAP
}

/// Returns a string as an expression of Python.
pub fn python_literal(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            ' ' | '!' | '#'..='[' | ']'..='~' => quoted.push(letter),
            other => write!(quoted, "\\U{:08x}", u32::from(other)).expect("writing to memory"),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_has_no_special_characters() {
        assert_eq!(python_literal("/tmp/a b"), "\"/tmp/a b\"");
        assert_eq!(python_literal("\"\\\n"), "\"\\U00000022\\U0000005c\\U0000000a\"");
        assert_eq!(python_literal("é"), "\"\\U000000e9\"");
    }
}
