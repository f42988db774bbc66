"""`marey run --instrument print-mem-spaces`: what the program's Triton kernels do to memory.

Triton keeps the PTX of what it compiles. The run gives it an empty folder to do so, in the
environment, so that child processes use it too, every kernel is compiled, and the user's cache
neither gives nor gets anything. At the end of the program the engine reads that folder.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile

from marey import _command, _session

_ENVIRONMENT = {
    "TRITON_DISABLE_LINE_INFO": "0",
    "TRITON_STORE_BINARY_ONLY": "0",  # else it keeps no PTX
}


def start() -> None:
    """Has Triton's PTX kept, in this process and its children, and shown when this one ends.

    Raises:
        ModuleNotFoundError: Triton is not installed.
        OSError: There is no room for temporary files.
    """
    if importlib.util.find_spec("triton") is None:
        raise ModuleNotFoundError("--instrument print-mem-spaces needs Triton")
    folder = tempfile.mkdtemp(prefix="marey-mem-spaces-")
    os.environ.update(_ENVIRONMENT, TRITON_CACHE_DIR=folder)
    # Registered before the program starts, so it runs after its handlers.
    atexit.register(_finish, folder, os.getpid())


def _finish(folder: str, pid: int) -> None:
    if os.getpid() != pid:
        return  # a fork of the program
    try:
        _show(folder)
    except OSError as error:
        _session.say(f"could not show the memory spaces: {error}")
    except BaseException:
        return  # from a signal's handler: the program itself has ended already
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _show(folder: str) -> None:
    if not any(
        name.endswith((".ptx", ".amdgcn")) for *_, names in os.walk(folder) for name in names
    ):
        _session.say("the program compiled no Triton kernel: there are no memory spaces to show")
    elif not _command.is_possible():
        _session.say("there is no Python interpreter to show the memory spaces with")
    else:
        _session.say("memory spaces of the Triton kernels that the program compiled:")
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()  # so that the table stands below the program's own output
        _command.wait(
            _command.start(
                ["triton", "mem-spaces", folder],
                [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, 2, 1)],
            )
        )
