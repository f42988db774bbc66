"""The code of a probe's child process: loads a library or package and returns facts about it."""

from __future__ import annotations

import os
import re
import sys
from typing import Any


def answer(question: str) -> Any:
    """Answers a question: about a package, operators of torch, or one of `_native.probe_gpu`."""
    if question == "torch":
        return _torch_facts()
    if question == "torch_operators":
        from marey import _torch_operators

        return _torch_operators.try_known_operators()
    if question == "torch_fields":
        from marey import _torch_fields

        return _torch_fields.find()
    if question == "torch_inputs":
        from marey import _torch_inputs

        return _torch_inputs.find()
    if question == "triton":
        return _triton_facts()
    from marey import _native

    return _native.probe_gpu(question, [path for path in sys.path if os.path.isdir(path)])


def _torch_facts() -> dict[str, Any]:
    import torch

    from marey import _torch_operators

    version = str(torch.__version__)
    return {
        "version": version,
        "operators": _torch_operators.describe(version, _torch_operators.start(torch)),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "has_kineto": torch.profiler.kineto_available(),
        "libcupti": _loaded_libcupti(),
    }


def _loaded_libcupti() -> str | None:
    """Returns the libcupti that torch has loaded, which takes precedence in programs with torch."""
    with open("/proc/self/maps") as maps:
        match = re.search(r"/.*/libcupti\.so[.\d]*$", maps.read(), re.MULTILINE)
    return match[0] if match else None


def _triton_facts() -> dict[str, Any]:
    import triton

    from marey.triton import contract

    return {"version": str(triton.__version__), "unknown": contract.unknown_chain()}
