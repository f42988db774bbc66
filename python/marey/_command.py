"""Commands of `marey` in processes of their own: a profiled program never loads the engine."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

# Runs isolated from the program's directory and environment, but with the same marey.
_PROGRAM = """\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.path.append(sys.argv[1])
from marey import _engine
sys.exit(_engine.cli_main(["marey", *sys.argv[2:]]))
"""

_PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def is_possible() -> bool:
    """Whether there is an interpreter to start, and no program with one inside, as uWSGI is."""
    name = os.path.basename(sys.executable or "")
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def start(arguments: Sequence[str], file_actions: Sequence[Any]) -> int:
    """Starts `marey` with these arguments and returns the process's id.

    By no fork, for which a large program waits, and which hooks notice. `file_actions` are those of
    `os.posix_spawn`.

    Raises:
        OSError: The process cannot be started.
    """
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-c", _PROGRAM, _PACKAGES, *arguments],
        os.environ,
        file_actions=file_actions,
        setsigmask=[],
    )


def wait(process: int) -> int | None:
    """Waits for the process and returns its exit code, or that of a signal, negative.

    `None` where the program waits for children that it does not know. If the handler of a signal
    raises meanwhile, as Ctrl-C does, the process is ended.
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
