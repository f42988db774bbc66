"""`marey run --instrument print-mem-spaces`: the memory accesses of the program's Triton kernels.

Triton's compilation cache has the PTX of each kernel. The run sets an empty cache folder in the
environment, so that child processes use it too, every kernel is compiled, and the user's cache is
neither read nor written. At the end of the program the engine reads the folder.
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
    "TRITON_STORE_BINARY_ONLY": "0",  # otherwise the cache has no PTX
}


def start() -> None:
    """Keeps Triton's PTX of this process and its children, and shows it when this process ends.

    Raises:
        ModuleNotFoundError: Triton is not installed.
        OSError: The temporary folder cannot be created.
    """
    if importlib.util.find_spec("triton") is None:
        raise ModuleNotFoundError("--instrument print-mem-spaces needs Triton")
    folder = tempfile.mkdtemp(prefix="marey-mem-spaces-")
    os.environ.update(_ENVIRONMENT, TRITON_CACHE_DIR=folder)
    # Registered before the program starts, so it runs after the program's handlers.
    atexit.register(_finish, folder, os.getpid())


def _finish(folder: str, pid: int) -> None:
    if os.getpid() != pid:
        return  # a forked child of the program
    try:
        _print_accesses(folder)
    except OSError as error:
        _session.say(f"could not show the memory spaces: {error}")
    except BaseException:
        return  # raised by a signal handler; the program itself has already ended
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _print_accesses(folder: str) -> None:
    if not any(
        name.endswith((".ptx", ".amdgcn")) for *_, names in os.walk(folder) for name in names
    ):
        _session.say("the program compiled no Triton kernel, so there are no memory spaces to show")
    elif not _command.is_possible():
        _session.say("cannot show the memory spaces: sys.executable is not a Python interpreter")
    else:
        _session.say("memory spaces of the Triton kernels that the program compiled:")
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()  # so that the table is printed below the program's own output
        _command.wait(
            _command.start(
                ["triton", "mem-spaces", folder],
                [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, 2, 1)],
            )
        )
