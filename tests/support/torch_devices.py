"""A double of the allocator of PyTorch's devices."""

from __future__ import annotations

import math
from typing import Any

MIB = 1 << 20


class Device:
    """A double of the caching allocator of two devices, of which one is used."""

    def __init__(self) -> None:
        self.allocated = self.peak = self.reserved = self.calls = 0

    def allocate(self, mib: int) -> None:
        self.allocated += mib * MIB
        self.peak = max(self.peak, self.allocated)
        self.reserved = max(self.reserved, math.ceil(self.allocated / (20 * MIB)) * 20 * MIB)

    def counters(self, device: int) -> dict[str, Any]:
        self.calls += 1
        allocated, peak, reserved = self.allocated, self.peak, self.reserved
        if device == 1:
            allocated = peak = reserved = 0
        return {
            "allocated_bytes": {"all": {"current": allocated, "peak": peak}},
            "reserved_bytes": {"all": {"current": reserved, "peak": reserved}},
        }
