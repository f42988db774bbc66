"""A Triton driver without a device: programs import it to launch real kernels.

Kernels are compiled as for a GPU and launched through Triton's own code, up to the driver's
launcher, which calls the hooks like the C launcher: no exit hook for a launch that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

STREAM = 7

on_launch: Callable[[], None] = lambda: None  # noqa: E731 - to be replaced by programs
"""What happens on the device's side of a launch; may fail it."""


class Launcher:
    def __init__(self, source: Any, metadata: Any) -> None:
        pass

    def __call__(self, *launch: Any) -> None:
        _x, _y, _z, _stream, _function, _packed, metadata, enter, leave, *_arguments = launch
        enter(metadata)
        on_launch()
        leave(metadata)


class Driver:
    launcher_cls = Launcher
    utils = SimpleNamespace(
        get_device_properties=lambda device: {"max_shared_mem": 1 << 18},
        load_binary=lambda name, kernel, shared, device: (1, 2, 0, 0, 1024),
        unload_module=lambda module: None,
    )

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return STREAM


triton.runtime.driver.set_active(Driver())
