//! Why there are no counters of devices.

use nvml_wrapper::error::NvmlError;
use thiserror::Error;

/// Why there are no counters of devices.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unavailable {
    /// The user wants none.
    #[error("counters of devices are turned off: `MAREY_NVML_PERIOD_MS` is 0")]
    TurnedOff,
    /// The library is not there, or is none.
    #[error("cannot load NVML from `{library}`: {reason}")]
    NoLibrary {
        /// Path or name of the library.
        library: String,
        /// What the system's loader says.
        reason: String,
    },
    /// The library is there, and does not begin.
    #[error("NVML in `{library}` cannot be used: {reason}")]
    NotStarted {
        /// Path or name of the library.
        library: String,
        /// What NVML says.
        reason: String,
        /// What would mend it, if that is known.
        hint: Option<&'static str>,
    },
    /// There is no device, or none that can be asked.
    #[error("NVML in `{library}` sees no device")]
    NoDevice {
        /// Path or name of the library.
        library: String,
    },
    /// There are devices, and the process sees none of them.
    #[error("`CUDA_VISIBLE_DEVICES` names no device that NVML in `{library}` sees")]
    Hidden {
        /// Path or name of the library.
        library: String,
    },
    /// All devices were lost, or answer nothing.
    #[error("no device answers NVML any more")]
    DevicesLost,
}

impl Unavailable {
    /// What NVML said when it was to begin.
    pub(super) fn not_started(library: &str, error: &NvmlError) -> Self {
        let hint = match error {
            NvmlError::DriverNotLoaded => Some("load the driver: `modprobe nvidia`"),
            NvmlError::LibRmVersionMismatch => {
                Some("the driver was updated while it was loaded: load it again, or reboot")
            }
            NvmlError::NoPermission => Some(
                "let this user open /dev/nvidiactl and /dev/nvidia*, or give them to the container",
            ),
            _ => None,
        };
        Self::NotStarted { library: library.to_owned(), reason: error.to_string(), hint }
    }

    /// What would mend it, if that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TurnedOff => Some("unset `MAREY_NVML_PERIOD_MS`"),
            Self::NoLibrary { .. } => Some(
                "install NVIDIA's driver, give the container `--gpus all`, or set `MAREY_NVML_LIB`",
            ),
            Self::NotStarted { hint, .. } => *hint,
            Self::NoDevice { .. } => {
                Some("give the container `--gpus all`, or look at `nvidia-smi`")
            }
            Self::Hidden { .. } => Some("look at `CUDA_VISIBLE_DEVICES`, and at `nvidia-smi -L`"),
            Self::DevicesLost => Some("look for `Xid` in the system's log"),
        }
    }
}
