"""Checks of marey, the interpreter, torch and Triton."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
import sysconfig
from typing import Any

import marey
from marey import _native

from ._check import Check, State
from ._probe import NoAnswer, Probe

SECTION = "Python"
OLDEST, NEWEST = (3, 10), (3, 14)
"""The versions of Python that marey is tested with."""


def check_marey() -> Check:
    """Returns the line of marey itself."""
    library = _native.library_path()
    facts = {"version": marey.__version__, "library": library}
    if library is None:
        text = f"marey {marey.__version__} cannot find its libmarey.so"
        return Check(SECTION, "marey", "broken", text, "pip install --force-reinstall marey", facts)
    return Check(SECTION, "marey", "ok", f"marey {marey.__version__}, {library}", facts=facts)


def check_interpreter() -> Check:
    """Returns the line of Python, and whether marey supports its version."""
    is_free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    is_supported = OLDEST <= sys.version_info[:2] <= NEWEST and not is_free_threaded
    are_frames_fast = _native.frames_are_fast()
    are_tasks_fast = _native.task_detection_is_fast()
    notes = [
        "without a GIL" if is_free_threaded else "",
        "" if is_supported else "which marey is not tested with",
        "" if are_frames_fast else "whose frames are read by the slower, documented API",
        "" if are_tasks_fast else "whose running task only asyncio reports",
    ]
    name = f"{platform.python_implementation()} {platform.python_version()}"
    facts = {
        "version": platform.python_version(),
        "executable": sys.executable,
        "has_gil": not is_free_threaded,
        "are_frames_fast": are_frames_fast,
        "are_tasks_fast": are_tasks_fast,
    }
    text = ", ".join([name, *filter(None, notes), sys.executable])
    mend = None if is_supported else f"use CPython {_dotted(OLDEST)} to {_dotted(NEWEST)}"
    return Check(SECTION, "python", "ok" if is_supported else "missing", text, mend, facts)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


class Package:
    """A package that may be installed. A child process imports it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._probe = Probe(name) if importlib.util.find_spec(name) is not None else None

    def facts(self) -> dict[str, Any] | Check:
        """Returns the facts about the package, or the line with the reason why there are none."""
        if self._probe is None:
            text, mend = f"{self.name} is not installed", f"pip install {self.name}"
            return Check(SECTION, self.name, "missing", text, mend)
        try:
            facts: dict[str, Any] = self._probe.answer()
        except NoAnswer as error:
            text = f"{self.name} cannot be imported: {error}"
            mend = f"{sys.executable} -c 'import {self.name}'"
            return Check(SECTION, self.name, "broken", text, mend)
        return facts


def check_torch(facts: dict[str, Any], driver_cuda: tuple[int, int] | None) -> Check:
    """Returns the line of torch: whether the driver supports the CUDA version it was built for."""
    cuda, hip = facts["cuda"], facts["hip"]
    target = f"for CUDA {cuda}" if cuda else f"for ROCm {hip}" if hip else "for the CPU"
    kineto = "with Kineto" if facts["has_kineto"] else "without Kineto"
    text = f"torch {facts['version']} {target}, {kineto}; operators are {facts['operators']}"
    if os.environ.get("KINETO_USE_DAEMON"):
        text += ", whose daemon may hold CUPTI (KINETO_USE_DAEMON)"
    state: State = "ok"
    mend = None
    if cuda and driver_cuda and int(cuda.split(".")[0]) > driver_cuda[0]:
        state = "broken"
        text += f"; the driver serves CUDA {_dotted(driver_cuda)}"
        mend = f"update the driver, or install a torch for CUDA {driver_cuda[0]}"
    return Check(SECTION, "torch", state, text, mend, facts)


def check_triton(facts: dict[str, Any]) -> Check:
    """Returns the line of Triton: whether its launch hooks are those that marey supports."""
    text = f"triton {facts['version']}"
    if unknown := facts["unknown"]:
        text += f": {unknown} is no chain of hooks that marey knows; launches are not recorded"
        mend = "pip install 'triton>=3.6,<3.10'"
        return Check(SECTION, "triton", "broken", text, mend, facts)
    return Check(SECTION, "triton", "ok", f"{text}, whose launch hooks marey knows", facts=facts)
