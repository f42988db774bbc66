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
/// Most context nodes a thread may hold.
pub const MAX_NODES: &str = "MAREY_MAX_NODES";

/// Every variable.
pub const ALL: [EnvVar; 5] = [
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
        name: MAX_NODES,
        default: "1000000",
        doc: "Most context nodes that one thread may hold; what comes after is counted in `losses`.",
    },
];

/// Whether the text of a switch variable means "on".
pub fn is_on(value: Option<&str>) -> bool {
    !matches!(value, None | Some("" | "0"))
}
