//! The environment variables of marey. Each is declared once, and the reference page is generated
//! from this table.

/// An environment variable.
#[derive(Clone, Copy, Debug)]
pub struct EnvVar {
    /// Name.
    pub name: &'static str,
    /// Description of the default.
    pub default: &'static str,
    /// Effect, in one or two sentences.
    pub doc: &'static str,
}

/// Turns all of marey into no-ops.
pub const DISABLE: &str = "MAREY_DISABLE";
/// Records each Python program, as `marey run` does.
pub const AUTOSTART: &str = "MAREY";
/// Records the modules and memory of PyTorch, as Probing's variable of this name does.
pub const TORCH_PROFILING: &str = "MAREY_TORCH_PROFILING";
/// Seconds between checkpoints.
pub const CHECKPOINT_SECS: &str = "MAREY_CHECKPOINT_SECS";
/// Path of `libmarey.so`.
pub const LIB: &str = "MAREY_LIB";
/// Options of `marey run`, passed on to the processes that the program starts.
pub const RUN: &str = "MAREY_RUN";
/// Run directory of trace sessions.
pub const RUN_DIR: &str = "MAREY_RUN_DIR";
/// Maximum number of context nodes per thread.
pub const MAX_NODES: &str = "MAREY_MAX_NODES";

/// Size of a thread's trace ring.
pub const TRACE_BUFFER_BYTES: &str = "MAREY_TRACE_BUFFER_BYTES";
/// Size of a thread's launch ring.
pub const LAUNCH_BUFFER_BYTES: &str = "MAREY_LAUNCH_BUFFER_BYTES";
/// Time between samples of Python's stacks.
pub const SAMPLE_SECS: &str = "MAREY_SAMPLE_SECS";
/// Maximum size of a spool.
pub const SPOOL_BYTES: &str = "MAREY_SPOOL_BYTES";
/// Maximum size of a ring.
pub const RING_BYTES: &str = "MAREY_RING_BYTES";
/// Number of records that a ring keeps.
pub const RING_RECORDS: &str = "MAREY_RING_RECORDS";
/// Time before its last record that a ring keeps, in seconds.
pub const RING_SECONDS: &str = "MAREY_RING_SECONDS";
/// Keeps spools after collection.
pub const KEEP_SPOOL: &str = "MAREY_KEEP_SPOOL";
/// Whether a program collects its run when it ends.
pub const COLLECT: &str = "MAREY_COLLECT";
/// Path of the libcupti to load.
pub const CUPTI_LIB: &str = "MAREY_CUPTI_LIB";

/// Maximum total size of the CUPTI activity buffers.
pub const GPU_BUFFER_BYTES: &str = "MAREY_GPU_BUFFER_BYTES";
/// CUDA interfaces whose calls are recorded in traces.
pub const CUDA_API: &str = "MAREY_CUDA_API";
/// Path of NVML to load.
pub const NVML_LIB: &str = "MAREY_NVML_LIB";
/// Period of reading device counters, in milliseconds.
pub const NVML_PERIOD_MS: &str = "MAREY_NVML_PERIOD_MS";
/// Time between readings of the counters of the process, in seconds.
pub const SYSTEM_METRICS_SECS: &str = "MAREY_SYSTEM_METRICS_SECS";

/// Whether the program's NVTX annotations become scopes.
pub const NVTX: &str = "MAREY_NVTX";
/// Whether a recording process answers at a Unix socket.
pub const ENDPOINT: &str = "MAREY_ENDPOINT";
/// Memory limit of queries.
pub const MEMORY_LIMIT: &str = "MAREY_MEMORY_LIMIT";

/// NVIDIA's variable: the library that NVTX loads to receive annotations.
pub const NVTX_INJECTION: &str = "NVTX_INJECTION64_PATH";

/// Every variable.
pub const ALL: [EnvVar; 27] = [
    EnvVar {
        name: DISABLE,
        default: "unset",
        doc: "`1` (or any non-empty value except `0`) disables marey: `start` returns `None`, nothing is recorded and no file is written.",
    },
    EnvVar {
        name: AUTOSTART,
        default: "unset",
        doc: "`1` records each Python program that is started, as `marey run` does with its defaults. Any other value has the options of `marey run`, such as `-d trace --operators`. Unset, empty or `0`: nothing is imported.",
    },
    EnvVar {
        name: TORCH_PROFILING,
        default: "unset",
        doc: "`on` or `1` is `MAREY='-d trace --memory'`, for programs that are started as Probing documents it.",
    },
    EnvVar {
        name: CHECKPOINT_SECS,
        default: "10",
        doc: "Seconds between checkpoints of the profile file; a SIGKILL loses at most this much. `0` writes no checkpoints.",
    },
    EnvVar {
        name: LIB,
        default: "the copy in the Python package, else the system's library path",
        doc: "Path of `libmarey.so`, for `include/marey.h` and the Python package.",
    },
    EnvVar {
        name: RUN,
        default: "set by `marey run`",
        doc: "Options of `marey run` as JSON, so that Python processes started by the program are profiled too. Not meant to be set by hand.",
    },
    EnvVar {
        name: RUN_DIR,
        default: "`<name>.marey`, from the session's name without its rank; set by `marey run -d trace`",
        doc: "Run directory that trace sessions record into. Set it for processes that are to form one run although they do not overlap in time or their sessions have different names.",
    },
    EnvVar {
        name: MAX_NODES,
        default: "1000000",
        doc: "Maximum number of context nodes per thread; further ones are counted in `losses`.",
    },
    EnvVar {
        name: TRACE_BUFFER_BYTES,
        default: "4194304",
        doc: "Size of each thread's buffer for scopes and metric values of a trace, at 32 bytes per scope. Events that do not fit until the buffer is written to the spool are counted in `losses`.",
    },
    EnvVar {
        name: LAUNCH_BUFFER_BYTES,
        default: "4194304",
        doc: "Size of each thread's buffer for launches on devices, at 32 bytes per launch. Launches that do not fit until the decoder reads the buffer are counted in `losses`.",
    },
    EnvVar {
        name: SAMPLE_SECS,
        default: "0",
        doc: "Seconds between samples of the Python stacks of all threads, in traces, such as `0.1`. `0` takes none.",
    },
    EnvVar {
        name: SPOOL_BYTES,
        default: "17179869184",
        doc: "Maximum size of a process's spool, the file that traces are recorded into; further events are counted in `losses`.",
    },
    EnvVar {
        name: RING_BYTES,
        default: "67108864",
        doc: "Maximum size of the files of a ring (`data=\"ring\"`), whatever else it is to keep.",
    },
    EnvVar {
        name: RING_RECORDS,
        default: "10000",
        doc: "Number of scopes, values, counters and activities that a ring keeps.",
    },
    EnvVar {
        name: RING_SECONDS,
        default: "0",
        doc: "Seconds before its last record that a ring keeps; `0` keeps a number of records instead.",
    },
    EnvVar {
        name: KEEP_SPOOL,
        default: "unset",
        doc: "`1` (or any non-empty value except `0`) keeps the spools of a run after they are collected into tables.",
    },
    EnvVar {
        name: COLLECT,
        default: "1",
        doc: "`0` (or the empty value) skips collection when the program ends; the tables of the run are then built when it is opened.",
    },
    EnvVar {
        name: CUPTI_LIB,
        default: "the first compatible with the driver: already loaded, in NVIDIA's wheels, in Triton, in the CUDA toolkit, on the loader's path",
        doc: "Path of the libcupti used to record NVIDIA devices, or of its folder. If it cannot be used, that is an error; no other one is searched for.",
    },
    EnvVar {
        name: GPU_BUFFER_BYTES,
        default: "134217728",
        doc: "Maximum total size of the CUPTI activity buffers. Buffers have 1 MiB each, and 64 KiB once half of the total is in use, because CUPTI may keep one per thread. At least 2 MiB; records that do not fit are counted in `losses`.",
    },
    EnvVar {
        name: CUDA_API,
        default: "unset: only calls that launch, copy, fill or wait",
        doc: "`driver`, `runtime` or `driver,runtime`: traces record every call of these CUDA interfaces as a span of kind `runtime` with its correlation id. `external_id` is the external correlation id that the program pushed by `cuptiActivityPushExternalCorrelationId`. Costs one span and one CUPTI record per call.",
    },
    EnvVar {
        name: NVML_LIB,
        default: "`libnvidia-ml.so.1`, on the loader's path",
        doc: "Path of NVIDIA's management library (NVML), used to read the device counters of traces.",
    },
    EnvVar {
        name: NVML_PERIOD_MS,
        default: "100",
        doc: "Milliseconds between readings of the device counters, at least 10. `0` disables them.",
    },
    EnvVar {
        name: SYSTEM_METRICS_SECS,
        default: "1",
        doc: "Seconds between readings of the counters of the process (CPU, memory, page faults, I/O, network, context switches) in traces, at least 0.05. `0` disables them.",
    },
    EnvVar {
        name: NVTX,
        default: "1",
        doc: "`0` (or the empty value) ignores the program's NVTX annotations; otherwise they become scopes.",
    },
    EnvVar {
        name: ENDPOINT,
        default: "1",
        doc: "`0` (or the empty value) opens no Unix socket while the process records, so that `marey ps`, `config` and `flush` do not find it.",
    },
    EnvVar {
        name: MEMORY_LIMIT,
        default: "2GiB",
        doc: "Memory limit of queries by `marey query`, `analyze`, `compare`, `check` and `marey.open`, such as `512MiB`, unless `--memory-limit` or `memory_limit` is given. Queries spill to temporary files beyond it, or fail.",
    },
    EnvVar {
        name: NVTX_INJECTION,
        default: "`libmarey.so`, from the first session on",
        doc: "NVIDIA's variable: path of the library that receives NVTX annotations. If it is set already, marey leaves it unchanged and receives no annotations.",
    },
];

/// Whether the value of a switch variable means "on".
pub fn is_on(value: Option<&str>) -> bool {
    !matches!(value, None | Some("" | "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_on_unless_it_is_unset_empty_or_zero() {
        assert_eq!([None, Some(""), Some("0")].map(is_on), [false; 3]);
        assert_eq!([Some("1"), Some("00"), Some("no")].map(is_on), [true; 3]);
    }
}
