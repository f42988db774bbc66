//! The C ABI of the recorder: a table of functions, through which all bindings call it.
//!
//! `libmarey.so` exports the symbol `marey_table`, which returns a [`Table`]. C and C++ use it
//! through `include/marey.h`, and Python through `marey._native`. New fields are only added at the
//! end of the table. A binding checks `abi_version` for incompatible changes, and `size` for fields
//! that may be absent.

use crate::api::StackSample;
use crate::detached::Detached;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize};

pub use crate::table_args::{
    CollectiveArg, DeviceEventArg, DeviceEventReceiver, ERROR_BYTES, ErrorBuffer, ErrorCode,
    GpuLevel, GpuOptions, LineArg, MetricArg, Sink, StartOptions, ValueTag, VariableArg,
};

/// The version of the table. A binding built for another version must not use it.
pub const ABI_VERSION: u32 = 1;

/// The exported symbol: `const Table *marey_table(void)`.
pub const SYMBOL: &str = "marey_table";

/// The result of `intern_metric` when the table of names is full.
pub const NO_METRIC: u32 = u32::MAX;
/// The cause for which no stacks are to be sampled, but a request for the last collective answered.
pub const NO_SAMPLE: u8 = u8::MAX;

/// The functions of the C ABI. None of them blocks on another thread's events, and none unwinds.
///
/// A pointer that may be null and otherwise points to one valid object is an `Option` of a
/// reference, which has the same layout; not if the object's size varies or its ownership passes.
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

    /// Returns the interned id of a name.
    pub intern: unsafe extern "C" fn(name: *const c_char, len: usize) -> u32,
    /// Returns the interned id of a metric's name, suffix included. [`NO_METRIC`] when the table of
    /// names is full.
    pub intern_metric: unsafe extern "C" fn(name: *const c_char, len: usize) -> u32,

    /// Enters a scope of a `NodeKind`. Returns its id or 0.
    pub scope_enter: extern "C" fn(name: u32, kind: u8) -> u64,
    /// Exits the innermost scope with that name (0: any name). Returns its id or 0.
    pub scope_exit: extern "C" fn(name: u32) -> u64,
    /// Enters an operator. Operators inside it are not recorded. Returns its id or 0.
    pub operator_enter: extern "C" fn(name: u32) -> u64,
    /// Exits the operator. Returns its id or 0.
    pub operator_exit: extern "C" fn(name: u32) -> u64,
    /// Enters a state, which applies to the scopes of this thread.
    pub state_enter: extern "C" fn(name: u32),
    /// Exits the innermost state. Returns whether there was one.
    pub state_exit: extern "C" fn() -> bool,
    /// Opens a training step unless one is open.
    pub step_begin: extern "C" fn(),
    /// Closes the training step and opens the next.
    pub step_end: extern "C" fn(),
    /// Returns the id of the innermost scope's name, or 0.
    pub top_name: extern "C" fn() -> u32,
    /// Adds user metrics to the innermost scope. Returns an [`ErrorCode`].
    pub add_metrics: unsafe extern "C" fn(
        values: *const MetricArg,
        len: usize,
        error: Option<&mut ErrorBuffer>,
    ) -> i32,

    /// Enters a scope outside of the stack, below `parent` (null: below the stack). May return
    /// null.
    pub detached_enter:
        unsafe extern "C" fn(parent: *const Detached, name: u32, kind: u8) -> *const Detached,
    /// Exits a detached scope. A second call does nothing.
    pub detached_exit: extern "C" fn(scope: Option<&Detached>),
    /// Adds user metrics to a detached scope.
    pub detached_add_metrics: unsafe extern "C" fn(
        scope: Option<&Detached>,
        values: *const MetricArg,
        len: usize,
        error: Option<&mut ErrorBuffer>,
    ) -> i32,
    /// Releases a reference that `detached_enter` returned.
    pub detached_release: unsafe extern "C" fn(scope: *const Detached),
    /// Returns the id of a detached scope.
    pub detached_id: extern "C" fn(scope: Option<&Detached>) -> u64,

    /// Registers the function that walks Python frames.
    pub set_frame_provider: extern "C" fn(provider: crate::api::FrameProvider),
    /// Returns the root of this thread's Python paths, and writes the generation of the tree to
    /// `generation`.
    pub frame_root: extern "C" fn(generation: Option<&mut u64>) -> u32,
    /// Returns the node of a Python frame below another node.
    pub frame_child: extern "C" fn(parent: u32, name: u32) -> u32,

    /// Starts a session. Returns its number, or -1.
    pub start:
        unsafe extern "C" fn(options: *const StartOptions, error: Option<&mut ErrorBuffer>) -> i64,
    /// Activates a session (-1: all). Returns an [`ErrorCode`], like the functions below.
    pub activate: extern "C" fn(session: i64, error: Option<&mut ErrorBuffer>) -> i32,
    /// Deactivates a session (-1: all).
    pub deactivate: extern "C" fn(session: i64, error: Option<&mut ErrorBuffer>) -> i32,
    /// Ends a session (-1: all) and writes its files. `format` may be null; `paths`, if not null,
    /// receives each file's path.
    pub finalize: unsafe extern "C" fn(
        session: i64,
        format: *const c_char,
        format_len: usize,
        paths: Option<Sink>,
        context: *mut c_void,
        error: Option<&mut ErrorBuffer>,
    ) -> i32,
    /// Closes a session's phase. Returns the number of the next phase, or -1.
    pub advance_phase: extern "C" fn(session: i64, error: Option<&mut ErrorBuffer>) -> i64,
    /// Returns 1 if a phase is complete, 0 if not, -1 on failure.
    pub is_phase_complete:
        extern "C" fn(session: i64, phase: u32, error: Option<&mut ErrorBuffer>) -> i32,
    /// Drops the data of a phase, or of all phases up to and including it.
    pub clear: extern "C" fn(
        session: i64,
        phase: u32,
        includes_earlier: bool,
        error: Option<&mut ErrorBuffer>,
    ) -> i32,
    /// Passes a phase's document to `sink`.
    pub get_data: unsafe extern "C" fn(
        session: i64,
        phase: u32,
        format: *const c_char,
        format_len: usize,
        sink: Option<Sink>,
        context: *mut c_void,
        error: Option<&mut ErrorBuffer>,
    ) -> i32,
    /// Returns the number of scopes on this thread's stack that a session sees, or -1.
    pub depth: extern "C" fn(session: i64, error: Option<&mut ErrorBuffer>) -> i64,
    /// Returns 0 if a session's paths are scopes, 1 if they are Python frames, -1 on failure.
    pub context: extern "C" fn(session: i64, error: Option<&mut ErrorBuffer>) -> i32,
    /// Makes a session write no file if it records nothing.
    pub set_quiet_if_empty: extern "C" fn(session: i64, error: Option<&mut ErrorBuffer>) -> i32,
    /// Writes the current state of every session to its file.
    pub checkpoint: extern "C" fn(),
    /// Restarts the background threads in the parent after a fork. Called by the caller of
    /// `defer_fork_restart`.
    pub after_fork_in_parent: extern "C" fn(),
    /// Passes the text of an id from `intern` to `sink`.
    pub name_text: unsafe extern "C" fn(name: u32, sink: Option<Sink>, context: *mut c_void),
    /// Writes the numbers of the live sessions, lowest first. Returns their number, which may be
    /// larger than `len`.
    pub sessions: unsafe extern "C" fn(sessions: *mut i64, len: usize) -> usize,
    /// Defers the restart of the background threads after the next fork to the caller, who then
    /// calls `after_fork_in_parent`. CPython's fork needs this, because it counts threads right
    /// after it.
    pub defer_fork_restart: extern "C" fn(),
    /// Passes the path of the run directory with a session's events to `sink`. Passes nothing if
    /// the session does not trace.
    pub run_dir: unsafe extern "C" fn(
        session: i64,
        sink: Option<Sink>,
        context: *mut c_void,
        error: Option<&mut ErrorBuffer>,
    ) -> i32,

    /// Zero while no session records.
    pub active: &'static AtomicU64,
    /// Exits the operator with this id and the scopes inside it, if it is still open on this
    /// thread. Returns its id or 0.
    pub operator_exit_id: extern "C" fn(id: u64) -> u64,
    /// Returns the innermost scope of this thread, for `detached_add_metrics` now or later; null if
    /// the thread cannot record. The caller must release it.
    pub detached_here: extern "C" fn() -> *const Detached,
    /// Enters an operator of this thread below a detached scope. It is exited like any other
    /// operator.
    pub detached_operator_enter: extern "C" fn(scope: Option<&Detached>, name: u32) -> u64,
    /// Counts losses by the number of their cause.
    pub count_losses: extern "C" fn(cause: u8, losses: u64),
    /// Starts the recording of devices, now or once the program uses CUDA. Returns an
    /// [`ErrorCode`], which reports a failure only if the backend is required.
    pub gpu_start:
        unsafe extern "C" fn(options: Option<&GpuOptions>, error: Option<&mut ErrorBuffer>) -> i32,
    /// Returns a [`GpuLevel`]. Passes three lines to `sink`: how devices are recorded or why not;
    /// the remedy; the code of the call that failed.
    pub gpu_level: unsafe extern "C" fn(sink: Option<Sink>, context: *mut c_void) -> i32,
    /// Passes the available means to record devices to `sink`. Question and answer are described at
    /// `Question` in `marey-gpu`. Loads and starts vendors' libraries, so only a process of its own
    /// should call it. Returns an [`ErrorCode`].
    pub gpu_probe: unsafe extern "C" fn(
        question: *const c_char,
        question_len: usize,
        paths: *const c_char,
        paths_len: usize,
        sink: Option<Sink>,
        context: *mut c_void,
        error: Option<&mut ErrorBuffer>,
    ) -> i32,
    /// Sets the note in profiles and runs on how devices are recorded.
    pub gpu_note: unsafe extern "C" fn(text: *const c_char, len: usize),
    /// Copies the environment variables again, as starting a session does. Other calls use the
    /// copy. Call this where no other thread sets a variable.
    pub note_environment: extern "C" fn(),
    /// Registers the function that finds the innermost scope of the task on a thread. Launches of
    /// the thread are attributed to that scope.
    pub set_task_provider: extern "C" fn(provider: crate::api::TaskProvider),
    /// Starts or stops the recording of PyTorch's operators. The positions of the private fields
    /// are those of `Fields` in `marey-torch`, 0 if unknown. Returns an [`ErrorCode`]:
    /// `Unsupported` if the loaded PyTorch cannot be observed. Calls and forks must be serialised.
    pub torch_operators: extern "C" fn(
        is_on: bool,
        sequence_field: u8,
        forward_thread_field: u8,
        error: Option<&mut ErrorBuffer>,
    ) -> i32,
    /// Counts performance events in the scopes of all threads, as metrics with the events' names.
    /// `names` are separated by commas; no name stops the counting. Returns an [`ErrorCode`]:
    /// `Argument` for an unknown name or too many, `Unsupported` if the system refuses an event.
    pub performance_events: unsafe extern "C" fn(
        names: *const c_char,
        names_len: usize,
        error: Option<&mut ErrorBuffer>,
    ) -> i32,
    /// Sets the operators of PyTorch whose inputs are read, before `torch_operators`: 0 none, 1
    /// those of a step in a hundred, 2 all. `fields` has the bytes of `InputFields` in
    /// `marey-torch`, the first one lowest.
    pub torch_shapes: extern "C" fn(shapes: u32, fields: u64),
    /// Leaves CUPTI to another profiler, or takes it back. Returns whether devices were being
    /// recorded and now are not.
    pub gpu_pause: extern "C" fn(is_paused: bool) -> bool,
    /// Makes PyTorch number the functions that its profilers observe, or no longer. Returns an
    /// [`ErrorCode`]. Calls and forks must be serialised.
    pub torch_ids: extern "C" fn(is_on: bool, error: Option<&mut ErrorBuffer>) -> i32,
    /// Writes the numbers of the live sessions that record, as `sessions` does.
    pub active_sessions: unsafe extern "C" fn(sessions: *mut i64, len: usize) -> usize,
    /// Adds a note about how the process is recorded to profiles and runs. A later note with the
    /// same key replaces it.
    pub note: unsafe extern "C" fn(
        key: *const c_char,
        key_len: usize,
        text: *const c_char,
        text_len: usize,
    ),
    /// Records collectives for trace sessions, in the order of their calls.
    pub record_collectives: unsafe extern "C" fn(collectives: *const CollectiveArg, len: usize),
    /// Returns the value of a setting, by its number in `marey_model::setting::ALL`; 0 for an
    /// unknown one.
    pub setting: extern "C" fn(setting: u32) -> f64,
    /// Sets a setting, by its number. A value outside of its range, or an unknown setting, changes
    /// nothing and returns false.
    pub set_setting: extern "C" fn(setting: u32, value: f64) -> bool,
    /// Records samples of call stacks for trace sessions. Their nodes are those of the calling
    /// thread. `cause` is the number of a `SampleCause` of `marey_model::spool`.
    pub record_samples: unsafe extern "C" fn(samples: *const StackSample, len: usize, cause: u8),
    /// Registers the function that is called after a setting was changed from outside the process,
    /// and for a request that Python has to answer, on a thread of the recorder.
    pub set_settings_listener: extern "C" fn(listener: crate::settings::Listener),
    /// The address of the state that the libraries of a process that include `marey.hpp` share. It
    /// is 0 until the first of them stores it. The recorder does not use it.
    pub cpp_state: &'static AtomicUsize,
    /// Records the arguments of the innermost scope of this thread for trace sessions, if it has
    /// this name. `json` is the text of a JSON object.
    pub scope_args: unsafe extern "C" fn(name: u32, json: *const c_char, json_len: usize),
    /// Exits the innermost scope with that name, an operator, and records its part in a backward
    /// pass for trace sessions. `forward_os_id` is 0 for an operator of the forward pass.
    pub scope_exit_autograd: extern "C" fn(name: u32, sequence: u64, forward_os_id: u64),
    /// Writes the totals of the performance events of this thread at its latest entry or exit of a
    /// scope, and their metric ids. Returns their number, 0 if none are counted.
    pub performance_counts:
        unsafe extern "C" fn(metrics: *mut u32, counts: *mut u64, len: usize) -> usize,
    /// Passes the activities of devices, and the calls of their APIs, of a trace session that has
    /// ended to `receive`, each valid until it returns. `run` is the path of its run directory.
    /// Events of an earlier session may be among them. Fails once 64 other sessions have started.
    /// Returns an [`ErrorCode`].
    pub device_events: unsafe extern "C" fn(
        run: *const c_char,
        run_len: usize,
        session: i64,
        receive: Option<DeviceEventReceiver>,
        context: *mut c_void,
        error: Option<&mut ErrorBuffer>,
    ) -> i32,
    /// Ends the background threads if no session is alive. The next session starts them again.
    pub end_idle_threads: extern "C" fn(),
    /// Returns `scope` (null: the root) as an exited scope that is addressed to one session. Values
    /// added to it and scopes entered inside it are recorded in this session alone, even if the
    /// session records nothing else. May return null. The caller must release it.
    pub session_scope: extern "C" fn(
        session: i64,
        scope: Option<&Detached>,
        error: Option<&mut ErrorBuffer>,
    ) -> *const Detached,
    /// Writes the name ids of this thread's open scopes (`context` 0) or Python frames (1),
    /// outermost first. Returns their number, which may be larger than `len`.
    pub context_names: unsafe extern "C" fn(context: u32, names: *mut u32, len: usize) -> usize,
    /// Returns the id of the name of this thread's innermost state, or 0.
    pub state_name: extern "C" fn() -> u32,
    /// Enters a scope as `scope_enter` does. Returns when it began, in ticks, also when nothing is
    /// recorded.
    pub scope_enter_timed: extern "C" fn(name: u32, kind: u8) -> u64,
    /// Exits a scope as `scope_exit` does. Returns when it ended, in ticks, also when there is
    /// none.
    pub scope_exit_timed: extern "C" fn(name: u32) -> u64,
    /// Returns the current time in ticks of the recorder's clock.
    pub ticks: extern "C" fn() -> u64,
    /// Converts ticks to nanoseconds of `CLOCK_MONOTONIC`. The first call measures the rate of the
    /// clock; only ticks of later readings can be converted.
    pub monotonic_nanos: extern "C" fn(ticks: u64) -> u64,
    /// Returns the address of a word of the calling thread for the libraries that include
    /// `marey.hpp`, 0 at first. Unlike the operating system's id it is never inherited by a later
    /// thread. The recorder does not use it.
    pub cpp_thread: extern "C" fn() -> *mut usize,
    /// Records the values of watched variables for trace sessions.
    pub record_variables: unsafe extern "C" fn(line: Option<&LineArg>),
    /// Copies the request from outside about watches, which Python has to answer. Returns its
    /// length, 0 if there is none. Copies nothing of a request that is longer than the buffer.
    pub next_request: unsafe extern "C" fn(request: *mut c_char, len: usize) -> usize,
    /// Answers the request that was copied last.
    pub answer_request: unsafe extern "C" fn(is_error: bool, text: *const c_char, len: usize),
    /// Whether the settings or a request need a thread that samples call stacks.
    pub needs_sampling: extern "C" fn() -> bool,
    /// Returns the number of a new thread that samples, 0 if none is needed or one runs.
    pub begin_sampling: extern "C" fn() -> u32,
    /// Makes the thread that samples return from `next_sample`.
    pub end_sampling: extern "C" fn(),
    /// Waits until the thread with this number is to sample. Writes the number of the `SampleCause`, or `NO_SAMPLE` for a
    /// request for the last collective, and the nanoseconds for which the sample stands. Returns false if the thread is
    /// to end.
    pub next_sample: extern "C" fn(
        thread: u32,
        cause: Option<&mut u8>,
        duration_nanos: Option<&mut u64>,
    ) -> bool,
    /// Whether a sample with the cause of this number is still due. The scope or step may have
    /// ended.
    pub is_sample_due: extern "C" fn(cause: u8) -> bool,
    /// Exits only the scope with this id, which ended at `ticks`; scopes inside it stay open.
    /// `sequence` is `u64::MAX`, or as in `scope_exit_autograd`. Returns whether it was open on
    /// this thread.
    pub scope_exit_only:
        extern "C" fn(id: u64, ticks: u64, sequence: u64, forward_os_id: u64) -> bool,
    /// Counts those of the events that can be counted, like `performance_events`. Passes a sentence
    /// for each of the others to `refusals`. Writes the metric id of each name, or `NO_METRIC` if
    /// it is refused, at most `len` of them. Returns the number of names.
    pub possible_performance_events: unsafe extern "C" fn(
        names: *const c_char,
        names_len: usize,
        metrics: *mut u32,
        len: usize,
        refusals: Option<Sink>,
        context: *mut c_void,
    ) -> usize,
    /// Returns the floating-point operations of an operator, from the JSON object of its arguments;
    /// -1 if they are unknown. `operator` without a namespace means one of `aten`.
    pub operator_flops: unsafe extern "C" fn(
        operator: *const c_char,
        operator_len: usize,
        args: *const c_char,
        args_len: usize,
    ) -> f64,
    /// Notes that the process is exiting. From now on each wait for a device ends after a few
    /// seconds.
    pub begin_process_exit: extern "C" fn(),
    /// Keeps the thread that samples, or no more, so that requests for the last collective are answered.
    pub find_collectives: extern "C" fn(is_on: bool),
    /// Answers the request for the last collective, with a JSON object or `null`.
    pub answer_collective: unsafe extern "C" fn(is_error: bool, text: *const c_char, len: usize),
}
