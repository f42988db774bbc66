"""The whole page: every line, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from marey._flags import is_disabled
from marey._names import ENV_DISABLE

from . import _environment, _nvidia, _privileges, _rocm, _software
from ._asked import Asked
from ._check import Check
from ._libcupti import Cupti, cupti

Level = Literal["off", "crash", "host", "cupti"]
"""What is recorded: nothing, nothing but a crash, the host side, or kernels too."""


@dataclass(frozen=True)
class Report:
    """What `marey doctor` says."""

    checks: list[Check]
    level: Level
    conclusion: str
    """What is recorded, in a sentence."""

    @property
    def is_broken(self) -> bool:
        """Whether anything is there and does not work."""
        return any(check.state == "broken" for check in self.checks)


def examine() -> Report:
    """Looks at this machine, with this interpreter and this environment."""
    asked_driver, asked_nvml = Asked("driver"), Asked("nvml")
    asked_torch, asked_triton = _software.Package("torch"), _software.Package("triton")

    driver = _nvidia.driver(asked_driver)
    torch, triton = asked_torch.facts(), asked_triton.facts()
    loaded_by_torch = None if isinstance(torch, Check) else torch["libcupti"]
    found = cupti(driver, loaded_by_torch)
    checks = [
        _software.package(),
        _software.interpreter(),
        torch if isinstance(torch, Check) else _software.torch(torch, driver.cuda),
        triton if isinstance(triton, Check) else _software.triton(triton),
        *driver.checks,
        *found.checks,
        *_nvidia.nvml(asked_nvml),
        *_rocm.checks(),
        *_environment.checks(),
        *_privileges.checks(),
    ]
    return Report(checks, *_conclusion(found))


def _conclusion(found: Cupti) -> tuple[Level, str]:
    if is_disabled():
        return "off", f"Nothing will be recorded, because {ENV_DISABLE} is set."
    if found.used is not None:
        return "cupti", f"Kernels will be recorded by {found.used}."
    if found.does_crash:
        return "crash", f"A program that uses CUDA would not survive marey: {found.failure}."
    what = "the host side"
    if found.is_held:
        what += ', and with hook="triton" launches of Triton\'s kernels by events'
    return "host", f"Only {what} will be recorded: {found.failure}."
