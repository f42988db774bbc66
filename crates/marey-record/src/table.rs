//! The function table: the one door to the recorder for every face.
//!
//! `libmarey.so` exports a single symbol, `marey_table`, which returns a [`Table`]. C and C++ reach
//! it through `include/marey.h`, Python through `marey._native`. The table only ever grows at its
//! end: a face checks `abi_version` for what it must not ignore and `size` for what may be absent.

use crate::detached::Detached;
use std::ffi::{c_char, c_void};
use std::sync::atomic::AtomicU64;

/// Version of what is there; a face built for another one must not use the table.
pub const ABI_VERSION: u32 = 1;

/// Name of the exported symbol: `const Table *marey_table(void)`.
pub const SYMBOL: &str = "marey_table";

/// No metric: the table of names is full.
pub const NO_METRIC: u32 = u32::MAX;

/// Room for an error's text, its final zero included.
pub const ERROR_BYTES: usize = 512;

/// What went wrong. Codes are those of [`ErrorCode`].
#[repr(C)]
#[derive(Debug)]
pub struct ErrorBuffer {
    /// 0 for success.
    pub code: i32,
    /// UTF-8, cut to fit, ended by a zero.
    pub message: [u8; ERROR_BYTES],
}

impl Default for ErrorBuffer {
    fn default() -> Self {
        Self { code: ErrorCode::Ok as i32, message: [0; ERROR_BYTES] }
    }
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ErrorCode {
    /// None.
    Ok = 0,
    /// An argument is wrong: a null pointer, a word that means nothing, text that is not UTF-8.
    Argument = 1,
    /// No such session or phase.
    NotFound = 2,
    /// A limit was reached.
    Limit = 3,
    /// A file could not be written.
    Io = 4,
    /// A metric's value was refused.
    Metric = 5,
    /// A defect of marey, caught at the border.
    Internal = 6,
    /// The session has not what is asked for.
    Unsupported = 7,
}

/// Type of a metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ValueTag {
    /// One `int64_t`.
    Int = 1,
    /// One `double`.
    Float = 2,
    /// UTF-8 bytes.
    Text = 3,
    /// `int64_t`s.
    Ints = 4,
    /// `double`s.
    Floats = 5,
}

/// A value of a user metric: `len` elements of the tag's type at `data`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MetricArg {
    /// From `intern_metric`.
    pub metric: u32,
    /// A [`ValueTag`].
    pub tag: u32,
    /// The elements.
    pub data: *const c_void,
    /// How many.
    pub len: usize,
}

/// What a session shall be; zero is the usual in every field.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StartOptions {
    /// `sizeof` of this struct where the caller was built.
    pub size: usize,
    /// Path of the profile without its extension.
    pub name: *const c_char,
    /// Bytes of `name`.
    pub name_len: usize,
    /// 0: scopes; 1: Python frames.
    pub context: u32,
    /// 0: hatchet; 1: `hatchet_msgpack`; 2: `chrome_trace` and 3: `marey`, which keep every event.
    pub format: u32,
    /// Write each phase when it is closed.
    pub flush_phases: u32,
    /// Write no file if nothing was recorded.
    pub quiet_if_empty: u32,
    /// Not 0: `note_environment` was called where no thread sets a variable, and `start` is not.
    pub environment_noted: u32,
    /// Zero.
    pub reserved: u32,
}

/// How devices shall be recorded; zero is the usual in every field.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GpuOptions {
    /// `sizeof` of this struct where the caller was built.
    pub size: usize,
    /// Not 0: fail if there is no backend, and start the driver if the program has not.
    pub is_required: u32,
    /// Not 0: keep what devices did one by one, and not only sums of kernels.
    pub keeps_activities: u32,
    /// Folders of packages in which libraries may lie, one a line.
    pub paths: *const c_char,
    /// Bytes of `paths`.
    pub paths_len: usize,
}

/// How devices are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum GpuLevel {
    /// Not at all.
    Host = 0,
    /// By CUPTI.
    Cupti = 1,
    /// Once the program uses CUDA.
    Waiting = 2,
    /// No session wants them.
    Idle = 3,
}

/// Receives bytes that a call returns.
pub type Sink = unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, len: usize);

/// The functions. None of them blocks on another thread's events, and none unwinds.
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    /// `sizeof` of this struct where the library was built.
    pub size: usize,
    /// [`ABI_VERSION`] of the library.
    pub abi_version: u32,
    /// Zero.
    pub reserved: u32,
    /// Not zero while a session is alive: test it before calling an event function.
    pub live: &'static AtomicU64,

    /// Number of a name.
    pub intern: unsafe extern "C" fn(name: *const c_char, len: usize) -> u32,
    /// Number of a metric's name, suffix included; [`NO_METRIC`] when full.
    pub intern_metric: unsafe extern "C" fn(name: *const c_char, len: usize) -> u32,

    /// Enters a scope of a `NodeKind`; returns its id or 0.
    pub scope_enter: extern "C" fn(name: u32, kind: u8) -> u64,
    /// Leaves the innermost scope with that name (0: with any); returns its id or 0.
    pub scope_exit: extern "C" fn(name: u32) -> u64,
    /// Enters an operator; those inside it are not recorded.
    pub operator_enter: extern "C" fn(name: u32) -> u64,
    /// Leaves the operator.
    pub operator_exit: extern "C" fn(name: u32) -> u64,
    /// Sets a state below the scopes.
    pub state_enter: extern "C" fn(name: u32),
    /// Ends the innermost state. Whether there was one.
    pub state_exit: extern "C" fn() -> bool,
    /// Opens a training step unless one is open.
    pub step_begin: extern "C" fn(),
    /// Closes the training step and opens the next.
    pub step_end: extern "C" fn(),
    /// Number of the innermost scope's name, or 0.
    pub top_name: extern "C" fn() -> u32,
    /// Adds user metrics to the innermost scope. Returns an [`ErrorCode`].
    pub add_metrics:
        unsafe extern "C" fn(values: *const MetricArg, len: usize, error: *mut ErrorBuffer) -> i32,

    /// Enters a scope outside of the stack, below `parent` (null: below the stack). May be null.
    pub detached_enter:
        unsafe extern "C" fn(parent: *const Detached, name: u32, kind: u8) -> *const Detached,
    /// Leaves it; a second time does nothing.
    pub detached_exit: unsafe extern "C" fn(scope: *const Detached),
    /// Adds user metrics to it.
    pub detached_add_metrics: unsafe extern "C" fn(
        scope: *const Detached,
        values: *const MetricArg,
        len: usize,
        error: *mut ErrorBuffer,
    ) -> i32,
    /// Gives up a reference that `detached_enter` returned.
    pub detached_release: unsafe extern "C" fn(scope: *const Detached),
    /// Its id.
    pub detached_id: unsafe extern "C" fn(scope: *const Detached) -> u64,

    /// Registers the function that walks Python frames.
    pub set_frame_provider: extern "C" fn(provider: crate::api::FrameProvider),
    /// Root of this thread's Python paths; writes the number of the tree to `generation`.
    pub frame_root: unsafe extern "C" fn(generation: *mut u64) -> u32,
    /// The node of a Python frame below another one.
    pub frame_child: extern "C" fn(parent: u32, name: u32) -> u32,

    /// Starts a session; its number, or -1.
    pub start: unsafe extern "C" fn(options: *const StartOptions, error: *mut ErrorBuffer) -> i64,
    /// Lets a session record (-1: all). Returns an [`ErrorCode`], as do those below.
    pub activate: unsafe extern "C" fn(session: i64, error: *mut ErrorBuffer) -> i32,
    /// Stops a session from recording (-1: all).
    pub deactivate: unsafe extern "C" fn(session: i64, error: *mut ErrorBuffer) -> i32,
    /// Ends a session (-1: all) and writes its files. `format` may be null; `paths`, if not null,
    /// receives each file's path.
    pub finalize: unsafe extern "C" fn(
        session: i64,
        format: *const c_char,
        format_len: usize,
        paths: Option<Sink>,
        context: *mut c_void,
        error: *mut ErrorBuffer,
    ) -> i32,
    /// Closes a session's phase; the next one's number, or -1.
    pub advance_phase: unsafe extern "C" fn(session: i64, error: *mut ErrorBuffer) -> i64,
    /// 1 if a phase is complete, 0 if not, -1 on failure.
    pub is_phase_complete:
        unsafe extern "C" fn(session: i64, phase: u32, error: *mut ErrorBuffer) -> i32,
    /// Drops a phase's data, or that of all up to it.
    pub clear:
        unsafe extern "C" fn(session: i64, phase: u32, up_to: bool, error: *mut ErrorBuffer) -> i32,
    /// A phase's document, to `sink`.
    pub get_data: unsafe extern "C" fn(
        session: i64,
        phase: u32,
        format: *const c_char,
        format_len: usize,
        sink: Option<Sink>,
        context: *mut c_void,
        error: *mut ErrorBuffer,
    ) -> i32,
    /// Scopes of this thread's stack that a session sees, or -1.
    pub depth: unsafe extern "C" fn(session: i64, error: *mut ErrorBuffer) -> i64,
    /// 0: a session's paths are scopes; 1: Python frames; -1 on failure.
    pub context: unsafe extern "C" fn(session: i64, error: *mut ErrorBuffer) -> i32,
    /// Writes no file for this session if it records nothing.
    pub set_quiet_if_empty: unsafe extern "C" fn(session: i64, error: *mut ErrorBuffer) -> i32,
    /// Writes every session's present state to its file.
    pub checkpoint: extern "C" fn(),
    /// To be called after a fork, in the parent, by whoever called `defer_fork_restart` before it.
    pub after_fork_in_parent: extern "C" fn(),
    /// Text of a number that `intern` gave, to `sink`.
    pub name_text: unsafe extern "C" fn(name: u32, sink: Option<Sink>, context: *mut c_void),
    /// Numbers of the live sessions, lowest first; returns how many there are, which may be more
    /// than `len`.
    pub sessions: unsafe extern "C" fn(sessions: *mut i64, len: usize) -> usize,
    /// To be called right before a fork: leaves it to the caller to have the background threads started
    /// again after it, by `after_fork_in_parent`. CPython counts threads right after one.
    pub defer_fork_restart: extern "C" fn(),
    /// Path of the run directory that a session's events are in, to `sink`; nothing if it keeps none.
    pub run_dir: unsafe extern "C" fn(
        session: i64,
        sink: Option<Sink>,
        context: *mut c_void,
        error: *mut ErrorBuffer,
    ) -> i32,

    /// Zero while no session records.
    pub active: &'static AtomicU64,
    /// Leaves the operator with this id, and what is open inside it, if it is still open on this thread;
    /// returns its id or 0.
    pub operator_exit_id: extern "C" fn(id: u64) -> u64,
    /// The innermost scope of this thread, for `detached_add_metrics` now or later; null if the thread
    /// cannot record. To be released.
    pub detached_here: extern "C" fn() -> *const Detached,
    /// Enters an operator of this thread inside a detached scope; to be left as any other.
    pub detached_operator_enter: unsafe extern "C" fn(scope: *const Detached, name: u32) -> u64,
    /// Counts losses by the number of their cause.
    pub count_losses: extern "C" fn(cause: u8, losses: u64),
    /// Has devices recorded from now on, or from when the program uses CUDA. Returns an [`ErrorCode`],
    /// which tells of a failure only if the backend is required.
    pub gpu_start: unsafe extern "C" fn(options: *const GpuOptions, error: *mut ErrorBuffer) -> i32,
    /// A [`GpuLevel`]. To `sink`, in three lines: how devices are recorded or why not; what mends that;
    /// the code of the call that failed.
    pub gpu_level: unsafe extern "C" fn(sink: Option<Sink>, context: *mut c_void) -> i32,
    /// What there is to record devices with, to `sink`: the question and the answer are those of `Question`
    /// in `marey-gpu`. Loads and starts vendors' libraries: for a process of its own. Returns an [`ErrorCode`].
    pub gpu_probe: unsafe extern "C" fn(
        question: *const c_char,
        question_len: usize,
        paths: *const c_char,
        paths_len: usize,
        sink: Option<Sink>,
        context: *mut c_void,
        error: *mut ErrorBuffer,
    ) -> i32,
    /// Says in profiles and runs how devices are recorded, in place of what was said before.
    pub gpu_note: unsafe extern "C" fn(text: *const c_char, len: usize),
    /// Looks at the environment again, which starting a session does too; others look at what was seen
    /// then. To be called where no other thread sets a variable.
    pub note_environment: extern "C" fn(),
    /// Registers the function that knows the innermost scope of the task that a thread runs: launches of
    /// the thread belong there.
    pub set_task_provider: extern "C" fn(provider: crate::api::TaskProvider),
}
