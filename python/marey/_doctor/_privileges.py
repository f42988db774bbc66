"""Checks of access to counters of devices and processors, and to other processes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from marey import performance

from ._check import Check

SECTION = "Privileges"

# Numbers of Linux capabilities.
_SYS_PTRACE = 19
_SYS_ADMIN = 21
_PERFMON = 38


def checks(
    root: Path = Path("/proc"), *, count_cycles: Callable[[], None] | None = None
) -> list[Check]:
    """Returns the lines of all checks; tests replace `/proc` and the trial of counters."""
    capabilities = _parse_capabilities(_read_text(root / "self/status"))
    return [
        _gpu_counters_check(root, capabilities),
        _cpu_counters_check(root, capabilities, count_cycles or _count_cycles),
        _ptrace_check(root, capabilities),
    ]


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _read_number(path: Path) -> int | None:
    text = _read_text(path).strip()
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _parse_capabilities(status: str) -> frozenset[int]:
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    bits = int(match[1], 16) if match else 0
    return frozenset(number for number in range(64) if bits >> number & 1)


def _gpu_counters_check(root: Path, capabilities: frozenset[int]) -> Check:
    match = re.search(r"RmProfilingAdminOnly:\s*(\d)", _read_text(root / "driver/nvidia/params"))
    is_restricted = match[1] == "1" if match else None
    has_capability = _SYS_ADMIN in capabilities
    facts = {"is_restricted": is_restricted, "has_sys_admin": has_capability}
    subject = "counters inside NVIDIA's devices"
    if is_restricted is None:
        text = f"{subject}: no NVIDIA kernel module is loaded, so it is unknown who may read them"
        return Check(SECTION, "gpu_counters", "missing", text, facts=facts)
    if is_restricted and not has_capability:
        text = f"{subject} are restricted to administrators; kernels are recorded without them"
        return Check(SECTION, "gpu_counters", "missing", text, _GPU_COUNTERS_MEND, facts)
    reason = "CAP_SYS_ADMIN" if is_restricted else "the kernel module allows every user"
    return Check(SECTION, "gpu_counters", "ok", f"{subject} may be read: {reason}", facts=facts)


_GPU_COUNTERS_MEND = (
    "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | sudo tee "
    "/etc/modprobe.d/nvidia-counters.conf, and reboot; a container: --cap-add SYS_ADMIN"
)


def _count_cycles() -> None:
    """Counts for a moment; raises `RuntimeError` if the system refuses."""
    performance.enable(["cycles"])
    performance.disable()


def _cpu_counters_check(
    root: Path, capabilities: frozenset[int], count_cycles: Callable[[], None]
) -> Check:
    level = _read_number(root / "sys/kernel/perf_event_paranoid")
    has_capability = bool(capabilities & {_PERFMON, _SYS_ADMIN})
    facts = {"perf_event_paranoid": level, "has_perfmon": has_capability}
    key, subject = "cpu_counters", "counters of the processor (perf events)"
    if level is None:
        return Check(SECTION, key, "missing", f"{subject}: this kernel has none", facts=facts)
    if level > 2 and not has_capability:
        text = f"{subject} are restricted to administrators: perf_event_paranoid is {level}"
        mend = "sudo sysctl kernel.perf_event_paranoid=2; a container: --cap-add PERFMON"
        return Check(SECTION, key, "missing", text, mend, facts)
    try:
        count_cycles()
    except RuntimeError as error:
        return Check(SECTION, key, "missing", f"{subject}: {error}", facts=facts)
    text = f"{subject} of own processes can be read: perf_event_paranoid is {level}"
    return Check(SECTION, key, "ok", text, facts=facts)


def _ptrace_check(root: Path, capabilities: frozenset[int]) -> Check:
    scope = _read_number(root / "sys/kernel/yama/ptrace_scope")
    has_capability = _SYS_PTRACE in capabilities
    facts = {"ptrace_scope": scope, "has_sys_ptrace": has_capability}
    subject = "running processes"
    if scope is None or scope == 0:
        text = f"{subject} of this user can be inspected: ptrace is not restricted"
        return Check(SECTION, "ptrace", "ok", text, facts=facts)
    if has_capability and scope < 3:
        text = f"{subject} can be inspected: CAP_SYS_PTRACE"
        return Check(SECTION, "ptrace", "ok", text, facts=facts)
    text = f"{subject} cannot be inspected, but children can: ptrace_scope is {scope}"
    if scope > 1:
        text = f"{subject} cannot be inspected: ptrace_scope is {scope}"
    # Level 3 cannot be lowered before a reboot.
    mend = "sudo sysctl kernel.yama.ptrace_scope=0" + (" after a reboot" if scope == 3 else "")
    mend += "; a container: --cap-add SYS_PTRACE" if scope < 3 else ""
    return Check(SECTION, "ptrace", "missing", text, mend, facts)
