//! The errors of reading a process, with hints how to mend them.

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

/// The hint for [`AttachError::FreeThreaded`].
const FREE_THREADED_HINT: &str = "start the program with the build of CPython that has the lock, whose name does not end with `t`";

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
        let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        Some(access_hint(*pid, yama.trim()))
    }
}

/// Returns how to get the right to read a process. `yama` is the value of
/// `kernel.yama.ptrace_scope`, empty without Yama.
fn access_hint(pid: u32, yama: &str) -> String {
    let mend = match yama {
        "" | "0" => format!("use the user of process {pid}, or sudo"),
        "3" => {
            return "kernel.yama.ptrace_scope is 3, which can only be lowered after a reboot"
                .into();
        }
        level => format!(
            "kernel.yama.ptrace_scope is {level}: use sudo, or sudo sysctl kernel.yama.ptrace_scope=0"
        ),
    };
    format!(
        "{mend}; in a container: --cap-add SYS_PTRACE, in Kubernetes, from an image that has marey: kubectl debug \
         -it POD --image=IMAGE --target=CONTAINER --profile=sysadmin -- marey dump PID"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_allows_it_is_named_for_each_prohibition() {
        for yama in ["", "0", "1", "2"] {
            let hint = access_hint(4242, yama);
            assert!(hint.contains("--cap-add SYS_PTRACE"), "{hint}");
            let command =
                "kubectl debug -it POD --image=IMAGE --target=CONTAINER --profile=sysadmin -- ";
            assert!(hint.contains(command), "{hint}");
            let is_restricted = hint.contains("sudo sysctl kernel.yama.ptrace_scope=0");
            assert_eq!(is_restricted, matches!(yama, "1" | "2"), "{hint}");
        }
        assert!(access_hint(4242, "0").starts_with("use the user of process 4242, or sudo;"));
        assert!(access_hint(4242, "3").ends_with("after a reboot"));
    }
}
