"""Commands of `marey` in child processes, because a profiled program never loads the engine."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from ._names import ENV_MAREY, ENV_TORCH_PROFILING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Isolated from the program's directory and environment, but with the same marey.
_PROGRAM = """\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.path.append(sys.argv[1])
from marey import _engine
sys.exit(_engine.cli_main(["marey", *sys.argv[2:]]))
"""

_PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def is_possible() -> bool:
    """Whether `sys.executable` is an interpreter, and not a program that embeds one, like uWSGI."""
    name = os.path.basename(sys.executable or "")
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def start(arguments: Sequence[str], file_actions: Sequence[Any]) -> int:
    """Starts `marey` with these arguments and returns the process id.

    Uses `os.posix_spawn` instead of a fork, which is slow in a large program and runs its fork
    hooks. `file_actions` are those of `os.posix_spawn`.

    Raises:
        OSError: The process cannot be started.
    """
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-c", _PROGRAM, _PACKAGES, *arguments],
        {**os.environ, ENV_MAREY: "", ENV_TORCH_PROFILING: ""},  # records nothing itself
        file_actions=file_actions,
        setsigmask=[],
    )


def wait(process: int) -> int | None:
    """Waits for the process and returns its exit code; a signal number is negative.

    Returns `None` if the program has already waited for the process. If a signal handler raises
    during the wait, as for Ctrl-C, the process is ended.
    """
    try:
        _, status = os.waitpid(process, 0)
    except ChildProcessError:
        return None
    except BaseException:
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)
        raise
    return os.waitstatus_to_exitcode(status)


def run(*arguments: str) -> None:
    """Runs `marey` with these arguments, and shows nothing of what it prints.

    Raises:
        OSError: The process cannot be started, or failed. The message has what it printed.
    """
    import tempfile  # imports modules that a profiled program need not have

    with tempfile.TemporaryFile() as output:
        process = start(
            arguments,
            [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
            ],
        )
        exit_code = wait(process)
        output.seek(0)
        printed = output.read().decode(errors="replace").strip().removeprefix("error: ")
    if exit_code not in (0, None):
        raise OSError(f"marey {arguments[0]} failed: {printed or f'exit code {exit_code}'}")
