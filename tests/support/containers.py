"""Programs in namespaces of their own, as far as a test needs to be a container."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from programs import write_program


def in_container(preparation: str, source: str) -> list[str]:
    """Returns a command that runs a program where other file systems are mounted."""
    line = f"{preparation} && exec {sys.executable} -u {write_program(source)}"
    return ["unshare", "--mount", "sh", "-c", line]


def can_mount() -> bool:
    done = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True
    )
    return done.returncode == 0


needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0 or not can_mount(), reason="needs the right to mount"
)
