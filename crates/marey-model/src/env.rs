//! The environment variables, declared once. The reference page is generated from this table.

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct EnvVar {
    /// Its name.
    pub name: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does, in a sentence or two.
    pub doc: &'static str,
}

/// Turns everything into no-ops.
pub const DISABLE: &str = "MAREY_DISABLE";
/// Seconds between checkpoints.
pub const CHECKPOINT_SECS: &str = "MAREY_CHECKPOINT_SECS";
/// Path of `libmarey.so`.
pub const LIB: &str = "MAREY_LIB";
/// Set by `marey run` for the processes that the program starts.
pub const RUN: &str = "MAREY_RUN";
/// The run directory that trace sessions record into.
pub const RUN_DIR: &str = "MAREY_RUN_DIR";
/// Most context nodes a thread may hold.
pub const MAX_NODES: &str = "MAREY_MAX_NODES";

/// Bytes of the buffer that a thread has for a trace.
pub const TRACE_BUFFER_BYTES: &str = "MAREY_TRACE_BUFFER_BYTES";
/// Bytes of the buffer that a thread has for what it launches.
pub const LAUNCH_BUFFER_BYTES: &str = "MAREY_LAUNCH_BUFFER_BYTES";
/// Most bytes of a spool.
pub const SPOOL_BYTES: &str = "MAREY_SPOOL_BYTES";
/// Has whoever collects a run leave its spools where they are.
pub const KEEP_SPOOL: &str = "MAREY_KEEP_SPOOL";
/// Whether a program collects its run when it ends.
pub const COLLECT: &str = "MAREY_COLLECT";
/// The libcupti that is used.
pub const CUPTI_LIB: &str = "MAREY_CUPTI_LIB";

/// Most bytes of the buffers for what devices tell.
pub const GPU_BUFFER_BYTES: &str = "MAREY_GPU_BUFFER_BYTES";
/// Interfaces of CUDA whose every call traces keep.
pub const CUDA_API: &str = "MAREY_CUDA_API";
/// Path of NVML.
pub const NVML_LIB: &str = "MAREY_NVML_LIB";
/// Milliseconds between two readings of the counters of devices.
pub const NVML_PERIOD_MS: &str = "MAREY_NVML_PERIOD_MS";

/// Whether NVTX annotations of the program become scopes.
pub const NVTX: &str = "MAREY_NVTX";
/// Memory that queries may use.
pub const MEMORY_LIMIT: &str = "MAREY_MEMORY_LIMIT";

/// NVIDIA's variable: the library that libraries with NVTX annotations report to.
pub const NVTX_INJECTION: &str = "NVTX_INJECTION64_PATH";

/// Every variable.
pub const ALL: [EnvVar; 19] = [
    EnvVar {
        name: DISABLE,
        default: "unset",
        doc: "`1` (or any value but `0` and the empty one) turns every call of marey into a no-op: `start` returns `None`, nothing is recorded and no file is written.",
    },
    EnvVar {
        name: CHECKPOINT_SECS,
        default: "10",
        doc: "Seconds between checkpoints of the profile file, which bound what a SIGKILL can lose. `0` writes none before the end.",
    },
    EnvVar {
        name: LIB,
        default: "the copy inside the Python package, else the system's library path",
        doc: "Path of `libmarey.so`, for `include/marey.h` and the Python package alike.",
    },
    EnvVar {
        name: RUN,
        default: "set by `marey run`",
        doc: "The options of `marey run` as JSON, by which Python processes that the program starts are profiled too. Not meant to be set by hand.",
    },
    EnvVar {
        name: RUN_DIR,
        default: "`<name>.marey`, by the session's name without its rank; set by `marey run -d trace`",
        doc: "The run directory that trace sessions record into. Processes that shall make one run and do not overlap in time, or have sessions of different names, need it.",
    },
    EnvVar {
        name: MAX_NODES,
        default: "1000000",
        doc: "Most context nodes that one thread may hold; what comes after is counted in `losses`.",
    },
    EnvVar {
        name: TRACE_BUFFER_BYTES,
        default: "4194304",
        doc: "Bytes of the buffer in which a thread keeps scopes and metric values of a trace until they are written to the spool, 32 a scope; what finds no room is counted in `losses`.",
    },
    EnvVar {
        name: LAUNCH_BUFFER_BYTES,
        default: "4194304",
        doc: "Bytes of the buffer in which a thread keeps what it launched on devices until the decoder has seen it, 32 a launch; what finds no room is counted in `losses`.",
    },
    EnvVar {
        name: SPOOL_BYTES,
        default: "17179869184",
        doc: "Most bytes of a process's spool, into which traces are recorded; what comes after is counted in `losses`.",
    },
    EnvVar {
        name: KEEP_SPOOL,
        default: "unset",
        doc: "`1` (or any value but `0` and the empty one) keeps the spools of a run when they have been collected into its tables.",
    },
    EnvVar {
        name: COLLECT,
        default: "1",
        doc: "`0` (or the empty value) leaves a run of traces uncollected when the program ends: its tables are then made when it is opened.",
    },
    EnvVar {
        name: CUPTI_LIB,
        default: "the first that suits the driver: loaded already, of NVIDIA's wheels, of Triton, of the CUDA toolkit, of the loader",
        doc: "The libcupti by which activities of NVIDIA devices are recorded: the file, or its folder. One that cannot be used is an error; no other is looked for.",
    },
    EnvVar {
        name: GPU_BUFFER_BYTES,
        default: "134217728",
        doc: "Most bytes of the buffers in which the device's library hands over what devices did: of 1 MiB each, and of 64 KiB once half of these bytes are in use, since it may keep a buffer for each thread. At least 2 MiB; what finds no room is counted in `losses`.",
    },
    EnvVar {
        name: CUDA_API,
        default: "unset: the calls that launch, copy, set or wait",
        doc: "`driver`, `runtime` or `driver,runtime`: traces keep every call of these interfaces of CUDA as a span of the kind `runtime` with its correlation id, and `external_id` has the number that the program put upon a call by `cuptiActivityPushExternalCorrelationId`. Costs a span a call, and a record of CUPTI's.",
    },
    EnvVar {
        name: NVML_LIB,
        default: "`libnvidia-ml.so.1`, as the system finds it",
        doc: "Path of NVIDIA's management library, from which traces have the counters of devices.",
    },
    EnvVar {
        name: NVML_PERIOD_MS,
        default: "100",
        doc: "Milliseconds between two readings of the counters of devices, at least 10. `0` reads none.",
    },
    EnvVar {
        name: NVTX,
        default: "1",
        doc: "`0` (or the empty value) leaves the program's NVTX annotations alone: they do not become scopes.",
    },
    EnvVar {
        name: MEMORY_LIMIT,
        default: "2GiB",
        doc: "Memory that the queries of `marey query`, `analyze`, `compare` and `check` and of `marey.open` may use, such as `512MiB`, where neither `--memory-limit` nor `memory_limit` says. What does not fit goes into temporary files, or is refused.",
    },
    EnvVar {
        name: NVTX_INJECTION,
        default: "`libmarey.so`, from the first session on",
        doc: "NVIDIA's variable: the library that receives NVTX annotations. One that is set already is respected, and marey then sees none.",
    },
];

/// Whether the text of a switch variable means "on".
pub fn is_on(value: Option<&str>) -> bool {
    !matches!(value, None | Some("" | "0"))
}
