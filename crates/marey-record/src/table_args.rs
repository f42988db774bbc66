//! The types that the functions of the C ABI take and return, see [`crate::table`].
//!
//! The callers were built with another version of marey: fields are never moved. A struct that begins
//! with its size may get more fields at its end.

use std::ffi::{c_char, c_void};

/// The options of a session. Zero is the default of every field.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StartOptions {
    /// `sizeof` of this struct where the caller was built.
    pub size: usize,
    /// Path of the profile without its extension.
    pub name: *const c_char,
    /// The size of `name` in bytes.
    pub name_len: usize,
    /// 0: scopes; 1: Python frames.
    pub context: u32,
    /// 0: `hatchet`; 1: `hatchet_msgpack`; 2: `chrome_trace`; 3: `marey`. The last two trace.
    pub format: u32,
    /// Not 0: write each phase when it is closed.
    pub flush_phases: u32,
    /// Not 0: write no file if nothing was recorded.
    pub quiet_if_empty: u32,
    /// Not 0: the caller has just called `note_environment` where no thread sets a variable.
    /// `start` then does not read the environment again, because a thread may set a variable by
    /// then.
    pub environment_noted: u32,
    /// Not 0: record only what is addressed to the session by `session_scope`.
    pub is_addressed_only: u32,
    /// Not 0: keep only the last records of a trace. Needs the format `marey`.
    pub is_ring: u32,
}

/// The options for recording devices. Zero is the default of every field.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GpuOptions {
    /// `sizeof` of this struct where the caller was built.
    pub size: usize,
    /// Not 0: fail if there is no backend, and initialise the driver if the program has not.
    pub is_required: u32,
    /// Not 0: keep single activities, and not only sums of kernels.
    pub keeps_activities: u32,
    /// Folders of packages that may contain libraries, one per line.
    pub paths: *const c_char,
    /// The size of `paths` in bytes.
    pub paths_len: usize,
}

/// The detail in which devices are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum GpuLevel {
    /// Not at all.
    Host = 0,
    /// By CUPTI.
    Cupti = 1,
    /// By CUPTI, once the program uses CUDA.
    Waiting = 2,
    /// Not at all, because no session records devices.
    Idle = 3,
}

/// A value of a user metric: `len` elements of the tag's type at `data`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MetricArg {
    /// The interned id of the metric's name, from `intern_metric`.
    pub metric: u32,
    /// A [`ValueTag`].
    pub tag: u32,
    /// A pointer to the elements.
    pub data: *const c_void,
    /// The number of elements.
    pub len: usize,
}

/// The type of a metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ValueTag {
    /// One `int64_t`.
    Int = 1,
    /// One `double`.
    Float = 2,
    /// UTF-8 bytes.
    Text = 3,
    /// An array of `int64_t`.
    Ints = 4,
    /// An array of `double`.
    Floats = 5,
}

/// A line with the values of watched variables, for [`Table::record_variables`](crate::table::Table::record_variables).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LineArg {
    /// The operating system's id of the thread.
    pub os_id: u64,
    /// The interned id of the thread's name.
    pub thread_name: u32,
    /// The interned id of the file's path.
    pub file: u32,
    /// The interned id of the function's name.
    pub function: u32,
    /// The line number.
    pub line: u32,
    /// The variables.
    pub variables: *const VariableArg,
    /// Number of variables.
    pub len: usize,
}

/// The value of a watched variable.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VariableArg {
    /// The value; its `metric` is the number of the variable's name, from `intern`.
    pub value: MetricArg,
    /// The interned id of the name of the value's type.
    pub value_type: u32,
}

/// A collective operation or point-to-point message. A negative number means that the value is
/// unknown, as does the name id 0 in `group_ranks` and `dtype`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CollectiveArg {
    /// The interned id of the operation's name, from `intern`.
    pub name: u32,
    /// The interned id of the group's name.
    pub group: u32,
    /// The interned id of the text with the group's ranks, such as `0-3,8`.
    pub group_ranks: u32,
    /// The interned id of the element type's name.
    pub dtype: u32,
    /// Number of ranks in the group.
    pub group_size: i64,
    /// Sequence number in the group.
    pub sequence: i64,
    /// Number of input elements.
    pub in_elements: i64,
    /// Number of output elements.
    pub out_elements: i64,
    /// Time of the call since 1970.
    pub created_unix_nanos: i64,
    /// Start since 1970.
    pub started_unix_nanos: i64,
    /// Duration.
    pub duration_nanos: i64,
    /// A `CollectiveState` of `marey_model::spool`.
    pub state: u32,
    /// 1 for a point-to-point message, else 0.
    pub is_p2p: u32,
}

/// An activity of a device, or a call of its API on a thread of the host.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceEventArg {
    /// The name, UTF-8.
    pub name: *const c_char,
    /// Size of the name in bytes.
    pub name_len: usize,
    /// The operating system's id of the calling thread; 0 for an activity.
    pub thread: u64,
    /// Start, on the monotonic clock of the operating system.
    pub start_nanos: i64,
    /// Duration.
    pub duration_nanos: u64,
    /// Bytes copied or filled.
    pub bytes: u64,
    /// An `ActivityKind` of `marey_model::spool`, -1 for a call on the host.
    pub kind: i32,
    /// Device number.
    pub device: u32,
    /// Stream; `u32::MAX` for none.
    pub stream: u32,
    /// The number that a call shares with its activities; 0 for none.
    pub correlation: u32,
    /// Grid in blocks and block in threads, x to z; 0 if this is no kernel.
    pub sizes: [u32; 6],
    /// Registers per thread.
    pub registers: u32,
    /// Zero.
    pub reserved: u32,
}

/// Receives a device event.
pub type DeviceEventReceiver =
    unsafe extern "C" fn(context: *mut c_void, event: *const DeviceEventArg);

/// Receives bytes that a call returns.
pub type Sink = unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, len: usize);

/// The error of a call.
#[repr(C)]
#[derive(Debug)]
pub struct ErrorBuffer {
    /// An [`ErrorCode`]; 0 for success.
    pub code: i32,
    /// UTF-8, truncated to fit, terminated by a zero.
    pub message: [u8; ERROR_BYTES],
}

impl Default for ErrorBuffer {
    fn default() -> Self {
        Self { code: ErrorCode::Ok as i32, message: [0; ERROR_BYTES] }
    }
}

/// The size of an error's message, its final zero included.
pub const ERROR_BYTES: usize = 512;

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ErrorCode {
    /// Success.
    Ok = 0,
    /// An invalid argument, such as a null pointer or an unknown value.
    Argument = 1,
    /// The session or phase does not exist.
    NotFound = 2,
    /// A limit was reached.
    Limit = 3,
    /// A file could not be written.
    Io = 4,
    /// A metric's value was refused.
    Metric = 5,
    /// A panic in marey, caught at the C boundary.
    Internal = 6,
    /// The session or machine does not support the call.
    Unsupported = 7,
}
