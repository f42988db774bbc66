//! Why a process cannot be read.

use std::fs;

use thiserror::Error;

/// Why a process cannot be read.
#[derive(Debug, Error)]
pub enum AttachError {
    /// The process does not exist, or has ended.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The system forbids reading the process.
    #[error("process {0} cannot be read: the system does not allow it")]
    Forbidden(u32),
    /// The threads of the process cannot be stopped, because another tool traces it.
    #[error("process {0} cannot be stopped to read native frames: a debugger may trace it already")]
    NotStopped(u32),
    /// The process is not a Python interpreter that can be read.
    #[error("process {pid} is not a CPython process that can be read: {reason}")]
    NotPython {
        /// The process.
        pid: u32,
        /// The missing part.
        reason: String,
    },
    /// The process runs a build of CPython without the global interpreter lock.
    #[error("process {0} runs a free-threaded build of CPython, which cannot be read yet")]
    FreeThreaded(u32),
    /// The process changed too fast, or ended, while it was read.
    #[error("the stacks of process {pid} could not be read: {reason}")]
    Unreadable {
        /// The process.
        pid: u32,
        /// The failed part of the last attempt.
        reason: String,
    },
}

/// How to mend it that a process runs a free-threaded build.
const FREE_THREADED_HINT: &str =
    "start the program with the build that has the lock: python3.14 instead of python3.14t";

impl AttachError {
    /// Returns how to mend the error, if that is known.
    pub fn hint(&self) -> Option<String> {
        let pid = match self {
            Self::Forbidden(pid) => pid,
            Self::NotStopped(_) => {
                return Some("detach the debugger, or leave native frames out".to_owned());
            }
            Self::FreeThreaded(_) => return Some(FREE_THREADED_HINT.to_owned()),
            _ => return None,
        };
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        Some(match scope.trim() {
            "" | "0" => format!(
                "use the user of process {pid}, or sudo; in a container: --cap-add SYS_PTRACE, in \
                 Kubernetes: kubectl debug --profile=sysadmin --target=CONTAINER POD"
            ),
            "3" => "kernel.yama.ptrace_scope is 3, which can only be lowered after a reboot".into(),
            level => format!(
                "kernel.yama.ptrace_scope is {level}: use sudo, or sudo sysctl \
                 kernel.yama.ptrace_scope=0; in a container: --cap-add SYS_PTRACE"
            ),
        })
    }
}
