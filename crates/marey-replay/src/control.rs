//! Control functions for tests: `replay_*`.

#![expect(unsafe_code, reason = "the C interface of the tests")]

use crate::api::{self, CallArguments};
use crate::buffers::FlushMode;
use crate::ffi::{INVALID_VALUE, Out, Text};
use crate::name::Name;
use crate::operation::{GraphIds, Kernel, Operation, TargetIds, Work};
use crate::script::Script;
use crate::{clock, context, export, lock, output, play, settings, thread};
use std::ffi::{CString, c_char};
use std::sync::{LazyLock, Mutex};

static SCRIPT_ERROR: LazyLock<Mutex<CString>> = LazyLock::new(Mutex::default);

/// Counters since the script was loaded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    /// Calls of subscribers.
    callback_count: u64,
    records_written: u64,
    /// Records lost for lack of room or by the script.
    records_dropped: u64,
    buffers_requested: u64,
    buffers_completed: u64,
    /// Correlation id of the next call.
    next_correlation_id: u64,
    /// Time of libcupti's clock.
    now_nanos: u64,
    /// Buffers that the profiler promised to zero and did not.
    buffers_dirty: u64,
}

/// Loads a script. Returns 0, or the number of the invalid line (see `replay_error`).
#[unsafe(no_mangle)]
extern "C" fn replay_load(text: *const u8, size: usize) -> i32 {
    // SAFETY: the caller passes a text of this size.
    let text = unsafe { std::slice::from_raw_parts(text, size) };
    match Script::parse(&String::from_utf8_lossy(text)) {
        Ok(script) => {
            settings::load(script);
            0
        }
        Err(error) => {
            *lock(&SCRIPT_ERROR) = CString::new(error.to_string()).unwrap_or_default();
            i32::try_from(error.line).unwrap_or(i32::MAX)
        }
    }
}

/// Returns the error of the last invalid script; valid until the next one.
#[unsafe(no_mangle)]
extern "C" fn replay_error() -> *const c_char {
    lock(&SCRIPT_ERROR).as_ptr()
}

/// Plays the whole script on this thread, and on the threads that it creates.
#[unsafe(no_mangle)]
extern "C" fn replay_run() -> i32 {
    play::play(&settings::script().statements);
    0
}

/// Plays a part of the script. Returns 1 if there is no such part.
#[unsafe(no_mangle)]
extern "C" fn replay_play(name: Text) -> i32 {
    let script = settings::script();
    let Some(statements) = play::find_part(&script.statements, name.get()) else {
        return INVALID_VALUE;
    };
    play::play(statements);
    0
}

/// Launches a kernel on device 0. The name must live as long as the process: records point to it.
#[unsafe(no_mangle)]
extern "C" fn replay_launch(kernel: Text, stream: u32, nanos: u64) -> i32 {
    let operation =
        Operation::new(Work::Kernel(Kernel::with_name(Name::borrowed(kernel.address()))), nanos);
    context::ensure_current(0);
    let arguments = CallArguments {
        symbol: kernel.address(),
        goes_through_runtime: api::calls_go_through_runtime(),
        ..CallArguments::context(context::for_device(0))
    };
    api::call(&api::LAUNCH_KERNEL, arguments, |correlation_id| {
        operation.run(
            TargetIds { device: 0, context: 1, stream },
            GraphIds::default(),
            correlation_id,
        );
        0
    })
}

/// Launches a kernel `times` times, to measure the double's own cost without calls from another
/// language.
#[unsafe(no_mangle)]
extern "C" fn replay_launch_many(kernel: Text, stream: u32, nanos: u64, times: u64) -> i32 {
    (0..times).map(|_| replay_launch(kernel, stream, nanos)).max().unwrap_or_default()
}

/// Flushes, like `cuptiActivityFlushAll`.
#[unsafe(no_mangle)]
extern "C" fn replay_flush(is_forced: i32) -> i32 {
    output::flush(if is_forced == 0 { FlushMode::Records } else { FlushMode::Forced });
    0
}

/// Returns a permanent copy of a name, for `replay_launch`.
#[unsafe(no_mangle)]
extern "C" fn replay_name(name: Text) -> *const c_char {
    Name::copied(name.get()).address() as *const c_char
}

/// Writes the counters.
#[unsafe(no_mangle)]
extern "C" fn replay_stats(stats: Out<Stats>) -> i32 {
    stats.set(Stats {
        callback_count: thread::sum(|counts| &counts.callback_count),
        records_written: output::written(),
        records_dropped: output::dropped_total(),
        buffers_requested: thread::sum(|counts| &counts.buffers_requested),
        buffers_completed: thread::sum(|counts| &counts.buffers_completed),
        next_correlation_id: api::next_correlation_id().into(),
        now_nanos: clock::now_nanos(),
        buffers_dirty: thread::sum(|counts| &counts.buffers_dirty),
    })
}

/// Returns the number of calls of a function of libcupti or libcuda.
#[unsafe(no_mangle)]
extern "C" fn replay_calls(function: Text) -> u64 {
    export::call_count(function.get())
}

/// Resets the machine, with the same script.
#[unsafe(no_mangle)]
extern "C" fn replay_reset() -> i32 {
    settings::load((*settings::script()).clone());
    0
}
