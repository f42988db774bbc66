"""Registration of `libmarey.so` as the NVTX tool, which makes scopes of NVTX annotations."""

from __future__ import annotations

import os

from . import _native
from ._names import ENV_NVTX, ENV_NVTX_INJECTION64_PATH


def register_tool() -> None:
    """Makes NVTX load `libmarey.so` in libraries that annotate for the first time after this call.

    Child processes inherit the setting. Does nothing under ``MAREY_NVTX=0``, or if another tool is
    registered.
    """
    if os.environ.get(ENV_NVTX, "1") in ("", "0") or _native.nvtx_injection() is not None:
        return
    library = _native.library_path()
    if library is not None:
        os.environ[ENV_NVTX_INJECTION64_PATH] = os.path.abspath(library)
