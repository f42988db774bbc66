"""The machine: whether its device can be opened, and the installed packages.

Run as a program, which may crash: `machine.py [--without-torch]` prints both as JSON.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

OPENING_SECS = 120
"""A driver may take long to wake its devices, and PyTorch to be read from a cold disk."""

PACKAGES = ("marey", "triton", "torch", "nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12")


def probe(*, with_torch: bool) -> dict[str, Any]:
    """Returns the output of `main` in a child process, with ``problem`` if there is no device."""
    command = [sys.executable, __file__, *([] if with_torch else ["--without-torch"])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=OPENING_SECS)
    except subprocess.TimeoutExpired:
        return {"problem": f"the device did not open in {OPENING_SECS} s"}
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        return {"problem": last or f"opening the device ended with {done.returncode}"}
    machine: dict[str, Any] = json.loads(done.stdout)
    return machine


def main() -> None:
    from cuda_driver import CudaDriver

    cuda = CudaDriver()
    cuda.allocate(1)
    cuda.synchronize()
    machine: dict[str, Any] = {
        "device": cuda.device_name(),
        "devices": cuda.device_count,
        "capability": ".".join(map(str, cuda.capability())),
        "memory_bytes": cuda.total_memory_bytes(),
        "versions": {"cuda_driver": cuda.version(), **_versions()},
    }
    if "--without-torch" in sys.argv[1:]:
        machine["torch_problem"] = "it was left out"
    elif importlib.util.find_spec("torch") is None:
        machine["torch_problem"] = "it is not installed"
    else:
        machine.update(_torch())
    print(json.dumps(machine))


def _torch() -> dict[str, Any]:
    import torch

    try:
        torch.zeros(1, device="cuda").add_(1).item()
    except Exception as error:
        return {"torch_problem": str(error).partition("\n")[0]}
    return {"torch_cuda": torch.version.cuda}


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "linux": platform.release()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    driver = Path("/proc/driver/nvidia/version")
    if driver.exists() and (found := re.search(r"\b\d{3,}\.[\d.]+\b", driver.read_text())):
        versions["nvidia_driver"] = found[0]
    return versions


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError) as error:
        sys.exit(str(error))
