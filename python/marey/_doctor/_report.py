"""The whole page: all lines, and the conclusion drawn from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from marey._flags import is_disabled
from marey._names import ENV_DISABLE

from . import _environment, _nvidia, _privileges, _rocm, _software
from ._check import Check
from ._libcupti import Cupti, check_cupti
from ._probe import Probe

Level = Literal["off", "crash", "host", "cupti"]
"""What is recorded: nothing (``off``, ``crash``), the host only, or kernels too (``cupti``)."""


@dataclass(frozen=True)
class Report:
    """The result of `marey doctor`."""

    checks: list[Check]
    level: Level
    conclusion: str
    """A sentence on what is recorded."""

    @property
    def is_broken(self) -> bool:
        """Whether any check is ``broken``."""
        return any(check.state == "broken" for check in self.checks)


def examine() -> Report:
    """Runs all checks on this machine, with this interpreter and this environment."""
    # All probes start before the first answer is awaited.
    driver_probe, nvml_probe = Probe("driver"), Probe("nvml")
    torch_package, triton_package = _software.Package("torch"), _software.Package("triton")

    driver = _nvidia.check_driver(driver_probe)
    torch, triton = torch_package.facts(), triton_package.facts()
    loaded_by_torch = None if isinstance(torch, Check) else torch["libcupti"]
    cupti = check_cupti(driver, loaded_by_torch)
    checks = [
        _software.check_marey(),
        _software.check_interpreter(),
        torch if isinstance(torch, Check) else _software.check_torch(torch, driver.cuda),
        triton if isinstance(triton, Check) else _software.check_triton(triton),
        *driver.checks,
        *cupti.checks,
        *_nvidia.check_nvml(nvml_probe),
        *_rocm.checks(),
        *_environment.checks(),
        *_privileges.checks(),
    ]
    return Report(checks, *_conclusion(cupti))


def _conclusion(cupti: Cupti) -> tuple[Level, str]:
    if is_disabled():
        return "off", f"Nothing will be recorded, because {ENV_DISABLE} is set."
    if cupti.selected is not None:
        return "cupti", f"Kernels will be recorded by {cupti.selected}."
    if cupti.does_crash:
        return "crash", f"A program that uses CUDA would not survive marey: {cupti.failure}."
    recorded = "the host side"
    if cupti.has_other_subscriber:
        recorded += ', and with hook="triton" launches of Triton\'s kernels by events'
    return "host", f"Only {recorded} will be recorded: {cupti.failure}."
