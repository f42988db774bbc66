//! A double of NVIDIA's libraries: plays a script of launches for any profiler that loads it.
//!
//! One shared object provides the C interfaces of libcupti (activity and callback API; with version
//! 130500 and a driver of 13030 or later also for several subscribers) and of libcuda, as far as
//! profilers and Triton's launchers use them. Symbolic links `libcupti.so` and `libcuda.so.1` to it
//! are one library to the loader. Nothing runs on a device: a launch calls the subscriber, writes a
//! record and calls the subscriber again, and device memory is host memory.
//! For tests only. It must never be installed, and trusts its C callers.
//!
//! # Scripts
//!
//! A script is a text with one statement per line; `#` begins a comment, quotation marks enclose a
//! word with spaces. The environment variable `MAREY_REPLAY` contains the path of a file, or
//! `replay_load` takes the text.
//!
//! Settings, outside of blocks:
//!
//! ```text
//! version 130001              # of libcupti: 26 (CUDA 12.8), 28 (12.9), 130001 (13.0), 130500 (13.5)
//! driver 13000                # of the driver
//! delivery inline             # records are delivered by the launching thread, or by a `worker` thread
//! buffers shared              # one buffer for all threads, or one for `each-thread`, as in CUDA 13
//! clock virtual start 1000000000          # advanced by the script, or:
//! clock real offset 5000 drift 20         # the machine's clock, with an offset in ns and a drift in ppm
//! device "NVIDIA H200" arch 90 sms 132 clock 1980000 memory-clock 3201000 bus 6144 memory 150754820096 uuid 3
//! devices 0                   # number of H200s
//! kernel add_kernel duration 500 registers 24     # defaults of a kernel that the program launches
//! fail cuptiSubscribe 39      # every call fails, or only the second: `at 2`; `fail cupti* 15`: all of them
//! fail cuCtxSynchronize -2147483648       # its calls never return
//! call 1000                   # host time of a call in ns
//! api driver                  # API of scripted calls; or `runtime`, which calls the driver
//! ids shared                  # one correlation id for a runtime call and its driver call, or
//!                             # `separate` ones: activities have the driver's
//! names permanent             # or `temporary`: the names in a record are overwritten after the
//!                             # completion of its buffer, those of a callback after the callback
//! ```
//!
//! Operations, with options in any order. All take `stream 7 device 0 context 1 duration 1000 gap
//! 0`, and `correlation 5` (the call has this id), `uncalled 5` (there is no call, the record has
//! this id), `unrecorded` (no record), `untimed` (start and end are 0), `backwards` (the end
//! precedes the start):
//!
//! ```text
//! launch "void gemm<float>(int)" grid 4,2 block 128 cluster 2 registers 40 shared 1024 static-shared 16 local 8
//! launch k unfinished         # ends at `finish`; its buffer is withheld until then, unless a forced flush
//!                             # delivers it with end 0, once
//! copy to-device 4096 from pageable to device blocking      # or to-host, on-device
//! copy on-device 4096 peer 1  # from this device to device 1
//! set 4096 value 0
//! synchronise stream stream 7                               # or device
//! capture step stream 7 {     # operations that become a graph's nodes
//!     launch a
//!     copy on-device 64
//! }
//! single-call {               # one call with several records, such as a launch on several devices,
//!     launch a                # or a copy that the driver divides
//!     launch b device 1
//! }
//! instantiate step            # otherwise done by the first launch
//! graph step stream 7         # a graph launch: one call, one record per node
//! graph step without-ids      # its records contain neither graph nor node
//! destroy step                # destroys the executable graph; running launches continue
//! ```
//!
//! Other statements:
//!
//! ```text
//! overhead buffer-flush 500   # compiler, instrumentation, resource, module-loading, ...
//! name stream 7 "copies"      # or device, context
//! mark "epoch" domain training id 1 start
//! context 0                   # creates the context of device 0, with records of both
//! push 3 77                   # pushes external correlation id 77 of kind 3; removed by `pop 3`
//! pass 1000                   # the host is busy for 1000 ns
//! correlation 4294967295      # correlation id of the next call
//! drop 3                      # the next three records are dropped and counted
//! order reversed 10           # groups of ten reversed; or `shuffled 10 42`, `held`, `as-they-come`
//! finish
//! flush forced                # or not forced
//! tool subscribes             # another tool subscribes if possible, until `tool leaves`
//! repeat 100 {                # or `thread {`: concurrent with what follows, to the end of the enclosing block
//! }
//! part forward {              # played in its place, or alone by `replay_play("forward")`
//! }
//! ```
//!
//! The driver is initialised by `cuInit` or by the first statement that is played, and then loads
//! the library in `CUDA_INJECTION64_PATH`, like NVIDIA's driver.
//!
//! # Control
//!
//! `replay_load`, `replay_error`, `replay_run`, `replay_play`, `replay_launch`, `replay_flush`,
//! `replay_stats`, `replay_calls`, `replay_reset`: see `control.rs`.
//!
//! Start reading at `script/mod.rs` (the statements), then `play.rs`, `api.rs` (calls as seen by
//! the profiler) and `output.rs` (the path of a record). `cupti/` and `cuda/` are the C interfaces.

mod activity;
mod api;
mod attribute;
mod buffers;
mod callback;
mod clock;
mod context;
mod control;
mod cuda;
mod cupti;
mod device;
mod export;
mod ffi;
mod graph;
mod name;
mod operation;
mod output;
mod play;
mod record;
mod script;
mod settings;
mod stream;
mod thread;
mod tool;
mod wait;
mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, ignoring poisoning: the data stay consistent, because every change is one assignment.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
