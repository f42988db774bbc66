//! The reasons why device counters are unavailable, with hints how to resolve them.

use nvml_wrapper::error::NvmlError;
use thiserror::Error;

/// The reason why device counters are unavailable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unavailable {
    /// The user disabled them.
    #[error("device counters are disabled: `MAREY_NVML_PERIOD_MS` is 0")]
    TurnedOff,
    /// The library does not exist or cannot be loaded.
    #[error("cannot load NVML from `{library}`: {reason}")]
    NoLibrary {
        /// Path or name of the library.
        library: String,
        /// Error message of the loader.
        reason: String,
    },
    /// NVML cannot be initialised.
    #[error("NVML in `{library}` cannot be used: {reason}")]
    NotStarted {
        /// Path or name of the library.
        library: String,
        /// Error message of NVML.
        reason: String,
        /// The step that resolves the problem, if known.
        hint: Option<&'static str>,
    },
    /// There is no device in the library with this path or name, or none is accessible.
    #[error("NVML in `{0}` finds no device")]
    NoDevice(String),
    /// No device of the library with this path or name is visible to the process.
    #[error("`CUDA_VISIBLE_DEVICES` selects none of the devices of NVML in `{0}`")]
    Hidden(String),
    /// All devices were lost or do not respond.
    #[error("no device responds to NVML any more")]
    DevicesLost,
}

impl Unavailable {
    /// Converts an error of NVML's initialisation.
    pub(super) fn not_started(library: &str, error: &NvmlError) -> Self {
        let hint = match error {
            NvmlError::DriverNotLoaded => Some("load the driver: `modprobe nvidia`"),
            NvmlError::LibRmVersionMismatch => {
                Some("the driver was updated while it was loaded: reload it, or reboot")
            }
            NvmlError::NoPermission => {
                Some("give this user, or the container, access to /dev/nvidiactl and /dev/nvidia*")
            }
            _ => None,
        };
        Self::NotStarted { library: library.to_owned(), reason: error.to_string(), hint }
    }

    /// Returns a hint how to resolve the problem, if one is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TurnedOff => Some("unset `MAREY_NVML_PERIOD_MS`"),
            Self::NoLibrary { .. } => Some(
                "install NVIDIA's driver, start the container with `--gpus all`, or set `MAREY_NVML_LIB`",
            ),
            Self::NotStarted { hint, .. } => *hint,
            Self::NoDevice(_) => {
                Some("start the container with `--gpus all`, or check `nvidia-smi`")
            }
            Self::Hidden(_) => Some("check `CUDA_VISIBLE_DEVICES`, and `nvidia-smi -L`"),
            Self::DevicesLost => Some("search the system log for `Xid`"),
        }
    }
}
