"""NVTX annotations of the program: `libmarey.so` receives them, and makes them scopes."""

from __future__ import annotations

import os

from . import _native
from ._names import ENV_NVTX, ENV_NVTX_INJECTION64_PATH


def listen() -> None:
    """Has libraries tell marey that annotate for the first time from now on, here or in a child.

    Does nothing under ``MAREY_NVTX=0``, or if another tool listens already.
    """
    if os.environ.get(ENV_NVTX, "1") in ("", "0") or _native.nvtx_injection() is not None:
        return
    library = _native.library_path()
    if library is not None:
        os.environ[ENV_NVTX_INJECTION64_PATH] = os.path.abspath(library)
