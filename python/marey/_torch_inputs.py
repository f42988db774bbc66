"""Positions of PyTorch's private fields with the inputs of operators, by version.

`find` finds them by comparison: it observes known operators, searches for the words that have the
expected values, and then records known operators and compares what they cost.
"""

from __future__ import annotations

import importlib
import os
import struct
import tempfile
from typing import Any, NamedTuple

import marey

from . import _native
from ._torch_fields import WORDS, observe


class InputFields(NamedTuple):
    """Positions in words of 8 bytes, and tags; 0 means unknown. In the order of marey's library."""

    inputs: int
    """In `at::RecordFunction`: the address of the first input, then their number."""

    sizes: int
    """In `c10::TensorImpl`: the number of dimensions, then their sizes."""

    dtype: int
    """In `c10::TensorImpl`: the word whose lower 16 bits are the type."""

    list_tag: int
    """The tag of a `c10::IValue` with a list."""

    bool_tag: int
    """The tag of a `c10::IValue` with a bool."""


UNKNOWN_INPUTS = InputFields(0, 0, 0, 0, 0)

KNOWN_INPUTS: dict[tuple[int, int] | None, InputFields] = {
    **{(2, minor): InputFields(23, 8, 21, 13, 9) for minor in range(3, 7)},
    **{(2, minor): InputFields(26, 8, 21, 13, 9) for minor in (7, 8)},
    **{(2, minor): InputFields(26, 8, 21, 14, 10) for minor in range(9, 13)},
    **{(2, minor): InputFields(26, 7, 20, 14, 10) for minor in range(13, 16)},
}
"""The fields in the minor versions of PyTorch that pass `make torch-versions`."""

_TENSOR_WORDS = 26
"""The words of a `c10::TensorImpl` that are searched."""

_MAX_VALUES = 64
"""More inputs than any observed operator has: a larger number was no number of inputs."""

_TENSOR_TAG = 1
_INT_TAG = 5


def find() -> InputFields:
    """Returns the fields of the imported version, `UNKNOWN_INPUTS` if they are not certain.

    For a process of its own: it reads memory at guessed positions.
    """
    torch: Any = importlib.import_module("torch")
    found = _search(torch)
    return found if found is not None and _costs(torch, found) == _EXPECTED else UNKNOWN_INPUTS


def _search(torch: Any) -> InputFields | None:
    sizes = _common_positions(
        [
            (torch.ones(7, 11, 13), lambda words, at: words[at : at + 4] == [3, 7, 11, 13]),
            (torch.ones(17), lambda words, at: words[at : at + 2] == [1, 17]),
        ]
    )
    types = {torch.float32: 6, torch.float64: 7, torch.int64: 4, torch.bool: 11, torch.bfloat16: 15}
    dtype = _common_positions(
        [
            (torch.ones(1, dtype=dtype), lambda words, at, n=number: words[at] & 0xFFFF == n)
            for dtype, number in types.items()
        ]
    )
    left, right = torch.ones(2, 3), torch.ones(3, 4)
    image, weight = torch.ones(1, 2, 9, 9), torch.ones(4, 2, 3, 3)
    inputs: set[int] = set()
    values: dict[str, list[tuple[int, int]]] = {}

    def start_of(name: str, function: int) -> None:
        words = _words(function, WORDS)
        if name == "aten::mm":
            expected = [(left._cdata, _TENSOR_TAG), (right._cdata, _TENSOR_TAG)]
            inputs.update(
                at
                for at in range(WORDS - 1)
                if words[at + 1] == 2
                and words[at] > 1 << 16
                and words[at] % 8 == 0
                and _values(words[at], 2) == expected
            )
        elif len(inputs) == 1:
            (at,) = inputs
            values.setdefault(name, _values(words[at], words[at + 1]))
            if name == "aten::conv2d" and len(values[name]) > 3:
                stride = _words(values[name][3][0], 4)
                values["stride"] = _values(stride[2], (stride[3] - stride[2]) // 16)

    def run() -> None:
        torch.mm(left, right)
        torch.nn.functional.conv2d(image, weight, None, stride=(2, 1))
        torch.sum(left, 0, True)

    observe(start_of, run, needs_inputs=True)
    if not (len(sizes) == len(dtype) == len(inputs) == 1):
        return None
    if values.get("stride") != [(2, _INT_TAG), (1, _INT_TAG)]:
        return None
    list_tag, bool_tag = values["aten::conv2d"][3][1], values["aten::sum"][2][1]
    return InputFields(inputs.pop(), sizes.pop(), dtype.pop(), list_tag, bool_tag)


def _common_positions(tensors: list[tuple[Any, Any]]) -> set[int]:
    """Returns the positions in tensors whose words satisfy the condition of each tensor."""
    positions = set(range(_TENSOR_WORDS))
    for tensor, is_expected in tensors:
        words = _words(tensor._cdata, _TENSOR_WORDS)
        positions = {at for at in positions if is_expected(words, at)}
    return positions


def _words(address: int, count: int) -> list[int]:
    """Returns the words from an address on, none unless all are there; guesses may be wrong."""
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        try:
            content = os.pread(memory.fileno(), 8 * count, address)
        except (OSError, OverflowError):
            return []
    return list(struct.unpack(f"={count}Q", content)) if len(content) == 8 * count else []


def _values(address: int, count: int) -> list[tuple[int, int]]:
    """Returns payload and tag of each `c10::IValue` from an address on."""
    if not 0 <= count <= _MAX_VALUES:
        return []
    words = _words(address, 2 * count)
    return [
        (payload, tag & 0xFFFFFFFF) for payload, tag in zip(words[::2], words[1::2], strict=True)
    ]


def _costs(torch: Any, fields: InputFields) -> dict[str, Any]:
    """Records known operators with their shapes; returns what each scope contains of FLOP."""
    with tempfile.TemporaryDirectory() as folder:
        _native.record_operators(True, None, 2, fields)
        session = marey.start(os.path.join(folder, "shapes"))
        with marey.scope("mm"):
            torch.mm(torch.ones(2, 3), torch.ones(3, 4))
        with marey.scope("wide"):
            torch.ones(3, 5, dtype=torch.float64).add(torch.ones(5, dtype=torch.float64))
        with marey.scope("convolution"), torch.no_grad():
            image, weight = torch.ones(1, 2, 9, 9), torch.ones(4, 2, 3, 3)
            torch.nn.functional.conv2d(image, weight, None, stride=(2, 1))
        with marey.scope("dimensions"):
            torch.relu(torch.ones(1, 2, 1, 3, 1, 2, dtype=torch.bfloat16))
        profile = marey.data.get(session)
        marey.finalize(session)
        _native.record_operators(False)
    if profile is None:
        return {}
    return {scope["frame"]["name"]: _sums(scope) for scope in profile[0]["children"]}


def _sums(node: dict[str, Any]) -> dict[str, float]:
    """Returns the FLOP by width of a node and the nodes below it."""
    sums = {key: value for key, value in node["metrics"].items() if key.startswith("flops")}
    for child in node["children"]:
        for key, value in _sums(child).items():
            sums[key] = sums.get(key, 0) + value
    return {key: value for key, value in sums.items() if value}


_EXPECTED = {
    "mm": {"flops32": 2 * 2 * 3 * 4},
    "wide": {"flops64": 15},
    "convolution": {"flops32": 2 * (4 * 7) * (4 * 2 * 3 * 3)},
    "dimensions": {"flops16": 12},
}
"""The FLOP of `_costs` in every version."""


if __name__ == "__main__":
    import torch

    print(f"{torch.__version__}: {find()}")
