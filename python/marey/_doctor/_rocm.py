"""Checks whether AMD's libraries are installed, without loading them."""

from __future__ import annotations

import glob
import importlib.util
import os

from ._check import Check

SECTION = "AMD"
_LIBRARIES = {"hip": "libamdhip64.so", "rocprofiler": "librocprofiler-sdk.so"}


def checks() -> list[Check]:
    """Returns a line for each library."""
    folders = _folders()
    return [_library_check(key, name, _find(name, folders)) for key, name in _LIBRARIES.items()]


def _library_check(key: str, name: str, path: str | None) -> Check:
    if path is None:
        text = f"{name} was not found; this version of marey would not use it"
        return Check(SECTION, key, "missing", text, facts={"path": None})
    text = f"{path} was found; this version of marey does not use it"
    return Check(SECTION, key, "ok", text, facts={"path": path})


def _find(name: str, folders: list[str]) -> str | None:
    paths = (path for folder in folders for path in glob.glob(f"{glob.escape(folder)}/{name}*"))
    return next(paths, None)


def _folders() -> list[str]:
    homes = [os.environ.get(name, "") for name in ("ROCM_PATH", "HIP_PATH")]
    homes += sorted(glob.glob("/opt/rocm*"))
    system = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"]
    torch = importlib.util.find_spec("torch")
    bundled = [
        os.path.join(path, "lib") for path in (torch and torch.submodule_search_locations) or ()
    ]
    paths = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [*filter(None, paths), *(f"{home}/lib" for home in homes if home), *bundled, *system]
