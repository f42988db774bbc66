"""Positions of two private fields of PyTorch's `at::RecordFunction`, by version.

The fields connect the nodes of the autograd graph with forward operators. `find` finds them by
comparison: it observes known operators and their backward, and searches for the words that have the
expected values. `make torch-versions` does so in every version.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple


class Fields(NamedTuple):
    """Positions in words of 8 bytes; 0 means unknown."""

    sequence: int
    """`sequence_nr_`: the number of the node that an operator makes or that is called, or -1."""

    forward_thread: int
    """`fwd_thread_id_`: of a node's call, PyTorch's number of the forward operator's thread."""


UNKNOWN = Fields(0, 0)

KNOWN: dict[tuple[int, int] | None, Fields] = {
    **{(2, minor): Fields(22, 28) for minor in (2, 3)},
    **{(2, minor): Fields(22, 35) for minor in (4, 5, 6)},
    **{(2, minor): Fields(25, 38) for minor in range(7, 16)},
}
"""The positions in the minor versions of PyTorch that pass `make torch-versions`."""

WORDS = 64
"""The words that are searched: `at::RecordFunction` is larger in all known versions."""


class _Callback(ctypes.Structure):
    """`at::RecordFunctionCallback`."""

    _fields_ = (
        ("start", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("sampling_probability", ctypes.c_double),
        ("scopes", ctypes.c_bool * 10),
        ("needs", ctypes.c_bool * 6),
    )


class _Observed(NamedTuple):
    """An observed function: the words of its object, and PyTorch's number of its thread."""

    words: list[int]
    thread: int


def find() -> Fields:
    """Returns the positions in the imported version, `UNKNOWN` if they are not unique.

    For a process of its own: it reads memory at guessed positions, and the callbacks are Python
    functions.
    """
    observed = _observe_known_operators()
    pairs = [
        (observed["aten::mm"], observed["MmBackward0"]),
        (observed["aten::relu"], observed["ReluBackward0"]),
        (observed["aten::sum"], observed["SumBackward0"]),
    ]
    first = pairs[0][0].words
    sequences = [
        index
        for index in range(WORDS)
        if all(
            forward.words[index] == backward.words[index] == first[index] + later
            for later, (forward, backward) in enumerate(pairs)
        )
    ]
    threads = [
        index
        for index in range(WORDS)
        if all(
            forward.words[index] == 0 and backward.words[index] == forward.thread
            for forward, backward in pairs
        )
    ]
    if len(sequences) != 1 or len(threads) != 1:
        return UNKNOWN
    return Fields(sequences[0], threads[0])


def observe(
    start_of: Callable[[str, int], None], run: Callable[[], object], *, needs_inputs: bool = False
) -> None:
    """Runs a function, and calls `start_of` with name and address of each function it observes.

    Addresses are those of `at::RecordFunction`, valid during the call.
    """
    library: Any = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    name = library._ZNK2at14RecordFunction4nameEv
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    add = library._ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE
    add.restype, add.argtypes = ctypes.c_uint64, [_Callback]
    remove = library._ZN2at14removeCallbackEm
    remove.argtypes = [ctypes.c_uint64]

    # The Itanium ABI of x86-64 passes the address of the result, a `unique_ptr`, as an argument.
    def start(result: int, function: int) -> int:
        ctypes.c_uint64.from_address(result).value = 0
        start_of(name(function).decode(), function)
        return result

    def end(_function: int, _context: int) -> None:
        pass

    pointer = ctypes.c_void_p
    functions = (
        ctypes.CFUNCTYPE(pointer, pointer, pointer)(start),
        ctypes.CFUNCTYPE(None, pointer, pointer)(end),
    )
    addresses = [ctypes.cast(function, pointer).value for function in functions]
    # Functions of the dispatcher, and nodes of autograd.
    scopes = (ctypes.c_bool * 10)(True, True)
    callback = _Callback(*addresses, 1.0, scopes, (ctypes.c_bool * 6)(needs_inputs))
    handle = add(callback)
    run()
    remove(handle)


def _observe_known_operators() -> dict[str, _Observed]:
    """Runs three operators and their backward; returns the first function of each name."""
    torch: Any = importlib.import_module("torch")
    library: Any = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    current_thread = library._ZN2at14RecordFunction15currentThreadIdEv
    current_thread.restype = ctypes.c_uint64
    observed: dict[str, _Observed] = {}

    def start_of(name: str, function: int) -> None:
        words = list((ctypes.c_int64 * WORDS).from_address(function))
        observed.setdefault(name, _Observed(words, current_thread()))

    left, right = torch.ones(2, 3, requires_grad=True), torch.ones(3, 4)
    for _ in range(5):
        torch.mm(left, right)  # so that the numbers below are not small ones
    observe(start_of, lambda: torch.mm(left, right).relu().sum().backward())
    return observed


if __name__ == "__main__":
    import torch

    print(f"{torch.__version__}: {find()}")
