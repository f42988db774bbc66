//! The errors of running a script in another process, with hints how to mend them.

use std::io;

use marey_attach::AttachError;
use thiserror::Error;

/// Why a script cannot be run in a process.
#[derive(Debug, Error)]
pub enum InjectError {
    /// The process does not exist, or the system forbids debugging it.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The interpreter, or the way it was built, is not supported.
    #[error("marey cannot get into process {pid}: {reason}")]
    Unsupported {
        /// The process.
        pid: u32,
        /// The unsupported part.
        reason: String,
    },
    /// The package is not in the file system of the process.
    #[error(
        "process {pid} cannot import marey: its file system, that of a container, has no {path}"
    )]
    NotInstalled {
        /// The process.
        pid: u32,
        /// The id of the process inside the container.
        inner_pid: u32,
        /// The folder that is missing.
        path: String,
    },
    /// A debugger has stopped or traces the process.
    #[error("process {pid} is traced by process {tracer} ({name})")]
    Traced {
        /// The process.
        pid: u32,
        /// The debugger.
        tracer: u32,
        /// Name of the debugger.
        name: String,
    },
    /// A signal has stopped the process, as Ctrl-Z does.
    #[error("process {0} is stopped")]
    Stopped(u32),
    /// The request could not be placed in time.
    #[error("marey could not get into process {pid}: {reason}")]
    Busy {
        /// The process.
        pid: u32,
        /// The failed part of the last attempt.
        reason: String,
    },
    /// The process ended before it answered.
    #[error("process {0} ended before it answered")]
    Ended(u32),
    /// The folder of the script cannot be used.
    #[error("the script for process {pid} cannot be stored: {error}")]
    Script {
        /// The process.
        pid: u32,
        /// The failure.
        error: io::Error,
    },
}

impl InjectError {
    /// Returns a command that mends the error, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Attach(error) => error.hint(),
            Self::NotInstalled { pid, inner_pid, .. } => Some(format!(
                "install marey there and attach from inside: sudo nsenter -t {pid} -a python3 -m pip \
                 install marey && sudo nsenter -t {pid} -a marey attach {inner_pid}"
            )),
            Self::Traced { tracer, .. } => {
                Some(format!("detach or end the debugger first: kill {tracer}"))
            }
            Self::Stopped(pid) => Some(format!("continue it: kill -CONT {pid}")),
            Self::Busy { pid, .. } => {
                Some(format!("try again; `marey dump {pid}` shows what its threads do"))
            }
            Self::Unsupported { .. } | Self::Ended(_) | Self::Script { .. } => None,
        }
    }
}
