"""Writing of files as a whole: a failed write leaves the file as it was."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TextIO


def save_text(path: str | os.PathLike[str], text: str, kind: str = "report") -> str:
    """Writes a file and returns its absolute path.

    Args:
        path: The file.
        text: Its content.
        kind: The word for the file in an error.

    Raises:
        OSError: The file cannot be written; the message has its path. An existing file is
            unchanged.
    """
    target = os.path.abspath(os.fspath(path))
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(
                target, "w", encoding="utf-8", errors="backslashreplace"
            ) as device:  # such as a pipe
                device.write(text)
        else:
            with replaced(target) as file:
                file.write(text)
    except OSError as error:
        raise OSError(
            error.errno, f"cannot write the {kind}: {error.strerror or error}", target
        ) from error
    return target


@contextlib.contextmanager
def replaced(target: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Opens a file that replaces another at the end of the block; not if the block raises.

    Raises:
        OSError: The file cannot be written; the message has the path of the file to replace.
    """
    # By `open`, so that the file has the permissions of the process's umask.
    temporary = os.path.join(os.path.dirname(target), f"{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8", errors="backslashreplace") as file:
            yield file
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            raise OSError(error.errno, error.strerror, os.fspath(target)) from error
        raise
