//! Why there is no CUPTI here, and what mends it.

use std::path::PathBuf;

use super::abi::result;
use super::driver_error;
use super::library::{Candidate, Refusal};
use thiserror::Error;

/// What had to work, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Loading the driver's library.
    Driver,
    /// Starting the driver, `cuInit`.
    Init,
    /// Finding a device.
    Device,
    /// Finding a libcupti that the driver can serve.
    Library,
    /// Becoming its subscriber.
    Subscribe,
    /// Turning records on.
    Enable,
}

/// Why activities of devices cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unavailable {
    /// The driver's library cannot be loaded.
    #[error("no NVIDIA driver: {reason}")]
    NoDriver {
        /// What the loader said.
        reason: String,
    },
    /// It lacks a function.
    #[error("the NVIDIA driver lacks `{function}`")]
    DriverIncomplete {
        /// Which.
        function: &'static str,
    },
    /// A call of it failed.
    #[error("`{call}` of the NVIDIA driver gave {code} ({})", driver_error::name(*.code))]
    DriverFailed {
        /// Which call.
        call: &'static str,
        /// What it gave.
        code: u32,
    },
    /// It has no device for this process.
    #[error("the NVIDIA driver shows no device to this process")]
    NoDevice,
    /// The library that the user named cannot be used.
    #[error("{} names {}: {reason}", marey_model::env::CUPTI_LIB, path.display())]
    Named {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        reason: Refusal,
    },
    /// No libcupti can be used.
    #[error("no usable libcupti{}", tried(.0))]
    NoLibrary(Vec<Candidate>),
    /// A call of libcupti failed.
    #[error("`{call}` of {} gave {code} ({}): {}{}", library.display(), result::name(*.code), result::text(*.code), held(.holder.as_deref()))]
    Refused {
        /// At which step.
        step: Step,
        /// The file.
        library: PathBuf,
        /// Which call.
        call: &'static str,
        /// What it gave.
        code: u32,
        /// The tool that has the library, if the library tells.
        holder: Option<String>,
    },
}

impl Unavailable {
    /// What did not work.
    pub const fn step(&self) -> Step {
        match self {
            Self::NoDriver { .. } | Self::DriverIncomplete { .. } => Step::Driver,
            Self::DriverFailed { code: driver_error::NO_DEVICE, .. } | Self::NoDevice => {
                Step::Device
            }
            Self::DriverFailed { .. } => Step::Init,
            Self::Named { .. } | Self::NoLibrary(_) => Step::Library,
            Self::Refused { step, .. } => *step,
        }
    }

    /// The code that a call gave, if one did.
    pub const fn code(&self) -> Option<u32> {
        match self {
            Self::DriverFailed { code, .. }
            | Self::Refused { code, .. }
            | Self::Named { reason: Refusal::NoVersion { code }, .. } => Some(*code),
            _ => None,
        }
    }

    /// Its name.
    pub fn code_name(&self) -> Option<&'static str> {
        match self {
            Self::DriverFailed { code, .. } => Some(driver_error::name(*code)),
            Self::Refused { code, .. }
            | Self::Named { reason: Refusal::NoVersion { code }, .. } => Some(result::name(*code)),
            _ => None,
        }
    }

    /// What mends it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoDriver { .. } | Self::DriverIncomplete { .. } => {
                "install NVIDIA's driver; a container needs `--gpus all` or its runtime's like"
            }
            Self::NoDevice => NO_DEVICE_HINT,
            Self::DriverFailed { code, .. } => driver_error::hint(*code).unwrap_or(NO_DEVICE_HINT),
            Self::Named { .. } => {
                "set MAREY_CUPTI_LIB to a libcupti.so or its folder, or unset it to have one found"
            }
            Self::NoLibrary(_) => {
                "install one for the driver's CUDA: `pip install nvidia-cuda-cupti` (13) or `nvidia-cuda-cupti-cu12`"
            }
            Self::Refused { code, .. } => refusal_hint(*code),
        }
    }
}

const NO_DEVICE_HINT: &str = "see `nvidia-smi`, and whether CUDA_VISIBLE_DEVICES hides the devices";

const fn refusal_hint(code: u32) -> &'static str {
    match code {
        result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED => {
            "end the other tool's session (Proton, Nsight, cuda-gdb, compute-sanitizer); torch.profiler, once \
             used, keeps CUPTI until the process ends, unless TEARDOWN_CUPTI=1 was in the environment before \
             its first use: set it, or start marey first"
        }
        result::INSUFFICIENT_PRIVILEGES => {
            "run as root, or load the kernel module with NVreg_RestrictProfilingToAdminUsers=0"
        }
        result::NOT_COMPATIBLE => "end the other tool's session: it uses CUPTI in another way",
        _ if result::is_unreachable(code) => {
            "set MAREY_CUPTI_LIB to a libcupti that is not newer than the driver, and see `nvidia-smi`"
        }
        _ => "see what `marey doctor` says of this library",
    }
}

fn held(holder: Option<&str>) -> String {
    holder.map_or_else(String::new, |holder| format!(", held by {holder:?}"))
}

fn tried(candidates: &[Candidate]) -> String {
    let each = candidates.iter().map(|one| format!("; {}: {}", one.path.display(), one.refusal));
    each.collect::<Vec<_>>().concat()
}
