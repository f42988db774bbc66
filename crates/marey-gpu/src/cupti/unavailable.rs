//! The reasons why CUPTI is unavailable, with hints how to resolve them.

use std::path::PathBuf;

use super::abi::result;
use super::driver_error;
use super::library::{RejectedCandidate, Rejection};
use thiserror::Error;

/// The steps that start a recording by CUPTI, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartStep {
    /// Loading the driver's library.
    Driver,
    /// Initialising the driver, `cuInit`.
    Init,
    /// Finding a device.
    Device,
    /// Finding a libcupti that the driver supports.
    Library,
    /// Subscribing to CUPTI.
    Subscribe,
    /// Enabling callbacks and activity kinds.
    Enable,
}

/// The reason why activities of devices cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unavailable {
    /// The driver's library cannot be loaded, with the error message of the loader.
    #[error("no NVIDIA driver: {0}")]
    NoDriver(String),
    /// A driver function is missing.
    #[error("the NVIDIA driver lacks `{0}`")]
    DriverIncomplete(&'static str),
    /// A driver call failed.
    #[error("`{call}` of the NVIDIA driver returned {code} ({})", driver_error::name(*.code))]
    DriverFailed {
        /// Name of the function.
        call: &'static str,
        /// Code that it returned.
        code: u32,
    },
    /// No device is visible to this process.
    #[error("the NVIDIA driver shows no device to this process")]
    NoDevice,
    /// The library selected by the user cannot be used.
    #[error("{} names {}: {reason}", marey_model::env::CUPTI_LIB, path.display())]
    UnusableSelection {
        /// The file or folder.
        path: PathBuf,
        /// Reason.
        reason: Rejection,
    },
    /// No candidate for libcupti can be used.
    #[error("no usable libcupti{}", candidate_list(.0))]
    NoLibrary(Vec<RejectedCandidate>),
    /// A CUPTI call failed.
    #[error("`{call}` of {} returned {code} ({}): {}{}", library.display(), result::name(*.code), result::description(*.code), existing_subscriber_text(.existing_subscriber.as_deref()))]
    CallFailed {
        /// Failing step.
        step: StartStep,
        /// Path of the library.
        library: PathBuf,
        /// Name of the function.
        call: &'static str,
        /// Code that it returned.
        code: u32,
        /// Name of the existing subscriber, if known.
        existing_subscriber: Option<String>,
    },
}

impl Unavailable {
    /// Returns the failing step.
    pub const fn step(&self) -> StartStep {
        match self {
            Self::NoDriver(_) | Self::DriverIncomplete(_) => StartStep::Driver,
            Self::DriverFailed { code: driver_error::NO_DEVICE, .. } | Self::NoDevice => {
                StartStep::Device
            }
            Self::DriverFailed { .. } => StartStep::Init,
            Self::UnusableSelection { .. } | Self::NoLibrary(_) => StartStep::Library,
            Self::CallFailed { step, .. } => *step,
        }
    }

    /// Returns the error code of a call, if any.
    pub const fn code(&self) -> Option<u32> {
        match self {
            Self::DriverFailed { code, .. }
            | Self::CallFailed { code, .. }
            | Self::UnusableSelection { reason: Rejection::NoVersion(code), .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns the name of the error code.
    pub fn code_name(&self) -> Option<&'static str> {
        let is_of_driver = matches!(self, Self::DriverFailed { .. });
        self.code().map(if is_of_driver { driver_error::name } else { result::name })
    }

    /// Returns a hint how to resolve the problem.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoDriver(_) | Self::DriverIncomplete(_) => {
                "install NVIDIA's driver; start a container with `--gpus all` or the equivalent of its runtime"
            }
            Self::NoDevice => NO_DEVICE_HINT,
            Self::DriverFailed { code, .. } => driver_error::hint(*code).unwrap_or(NO_DEVICE_HINT),
            Self::UnusableSelection { .. } => {
                "set MAREY_CUPTI_LIB to a libcupti.so or its folder, or unset it to search for one"
            }
            Self::NoLibrary(_) => {
                "install one for the driver's CUDA: `pip install nvidia-cuda-cupti` (13) or `nvidia-cuda-cupti-cu12`"
            }
            Self::CallFailed { code, .. } => call_failure_hint(*code),
        }
    }
}

const NO_DEVICE_HINT: &str =
    "check `nvidia-smi`, and whether CUDA_VISIBLE_DEVICES hides the devices";

const fn call_failure_hint(code: u32) -> &'static str {
    match code {
        result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED => {
            "end the other tool's session (Proton, Nsight, cuda-gdb, compute-sanitizer); torch.profiler, once \
             used, keeps CUPTI until the process ends, unless TEARDOWN_CUPTI=1 was in the environment before \
             its first use: set it, or start marey first"
        }
        result::INSUFFICIENT_PRIVILEGES => {
            "run as root, or load the kernel module with NVreg_RestrictProfilingToAdminUsers=0"
        }
        result::NOT_COMPATIBLE => "end the other tool's session: its use of CUPTI is incompatible",
        _ if result::is_driver_inaccessible(code) => {
            "set MAREY_CUPTI_LIB to a libcupti that is not newer than the driver, and check `nvidia-smi`"
        }
        _ => "run `marey doctor` to examine this library",
    }
}

fn existing_subscriber_text(name: Option<&str>) -> String {
    name.map_or_else(String::new, |holder| format!(", held by {holder:?}"))
}

fn candidate_list(candidates: &[RejectedCandidate]) -> String {
    let descriptions = candidates
        .iter()
        .map(|candidate| format!("; {}: {}", candidate.path.display(), candidate.rejection));
    descriptions.collect::<Vec<_>>().concat()
}
