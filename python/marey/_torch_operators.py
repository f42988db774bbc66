"""Recording of PyTorch's operators: in which versions of PyTorch, and the trial of others.

The callbacks of `marey._native.record_operators` assume the layout of two C++ types, and links from
backward to forward need two private fields (`_torch_fields`). The versions in `KNOWN` and
`KNOWN_INPUTS` have been tested. Any other version is tried in a child process first, which may
crash, and the result is kept for the next program. `describe` says which way was taken.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import marey

from . import _native
from ._saving import replaced
from ._torch_fields import KNOWN, UNKNOWN, WORDS, Fields
from ._torch_inputs import KNOWN_INPUTS, UNKNOWN_INPUTS, InputFields


class Support(NamedTuple):
    """The ways in which operators of a PyTorch can be recorded."""

    objection: str | None
    """Why they are not recorded at all."""

    fields: Fields
    """The private fields that link backward to forward; unknown without these links."""

    inputs: InputFields = UNKNOWN_INPUTS
    """The private fields with the inputs of operators; unknown if shapes are not recorded."""

    @property
    def has_shapes(self) -> bool:
        """Whether shapes can be recorded, if operators are."""
        return self.inputs != UNKNOWN_INPUTS


SHAPES = {"off": 0, "sampled": 1, "all": 2}
"""Numbers for `_native.record_operators`, by the operators whose shapes are recorded."""


def start(torch: Any, shapes: str = "off") -> Support:
    """Records operators while a session records, with the shapes of some (a key of `SHAPES`).

    Returns what the imported `torch` allows. If it does not allow to read shapes, operators are
    recorded without them. The run has a note on it.
    """
    global _description
    support = find_support(torch.__version__, getattr(torch.version, "git_version", ""))
    if support.objection is None:
        inputs = support.inputs if support.has_shapes else None
        try:
            _native.record_operators(True, support.fields, SHAPES[shapes], inputs)
        except RuntimeError as error:
            support = support._replace(objection=str(error))
        else:
            _record_fetches()
    _description = describe(torch.__version__, support)
    choice = f"; shapes: {shapes}" if support.objection is None and support.has_shapes else ""
    _native.note(_NOTE, _description + choice)
    return support


def stop() -> None:
    """Ends what `start` has begun. Without effect if it has not."""
    global _description
    _native.record_operators(False)
    _undo.close()
    if _description is not None:
        _native.note(_NOTE, f"{_description}; switched off")
        _description = None


def pause() -> None:
    """Removes the hooks of `start` that a paused session leaves: those of data loaders."""
    _undo.close()


def resume() -> None:
    """Installs the hooks again that `pause` has removed."""
    _record_fetches()


def _record_fetches() -> None:
    """Records the loading of each batch, in the process that does it: mostly a worker."""
    _undo.close()
    fetch: Any = importlib.import_module("torch.utils.data._utils.fetch")
    for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        _undo.callback(setattr, fetcher, "fetch", fetcher.fetch)
        fetcher.fetch = marey.scope(FETCH_SCOPE)(fetcher.fetch)


FETCH_SCOPE = "DataLoader.fetch"
"""The scope in which a batch is loaded."""

_undo = contextlib.ExitStack()

_NOTE = "operators"
"""Key of the note on how operators are recorded."""

_description: str | None = None
"""The description that `start` has noted; `None` before it and after `stop`."""


def describe(version: str, support: Support) -> str:
    """Returns a phrase on how operators of a version are recorded, to follow "operators are"."""
    if support.objection is not None:
        return f"not recorded: {support.objection}"
    if is_tested(version):
        return "recorded by callbacks, as in tested versions"
    phrase = "recorded by callbacks, which a trial of this version has confirmed"
    are_found = {
        "links from backward to forward": support.fields != UNKNOWN,
        "shapes": support.has_shapes,
    }
    missing = " and ".join(name for name, is_found in are_found.items() if not is_found)
    return f"{phrase}, without {missing}, which it did not find" if missing else phrase


def find_support(version: str, revision: str) -> Support:
    """Returns how operators of a PyTorch are recorded.

    Args:
        version: `torch.__version__`.
        revision: `torch.version.git_version`. With the version it identifies the build.
    """
    if is_tested(version):
        minor = minor_of(version)
        return Support(None, KNOWN[minor], KNOWN_INPUTS[minor])
    path = _cache_file(version, revision)
    cached = _read(path)
    if cached is not None:
        return cached
    support = _try_in_child()
    with contextlib.suppress(OSError):
        _write(path, support)
    return support


def is_tested(version: str) -> bool:
    """Whether a version is a release of PyTorch that passes `make torch-versions`."""
    minor = minor_of(version)
    return minor in KNOWN and minor in KNOWN_INPUTS and _RELEASE.fullmatch(version) is not None


_RELEASE = re.compile(r"\d+\.\d+\.\d+(\+(cpu|cu\d|rocm\d|xpu)[\w.]*)?")
"""Versions of PyTorch's own releases; others, such as nightly ones, may have other layouts."""


def minor_of(version: str) -> tuple[int, int] | None:
    """Returns major and minor number, `None` for a version that has none."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return None if numbers is None else (int(numbers[1]), int(numbers[2]))


def _cache_file(version: str, revision: str) -> Path:
    """Returns the file with the support of a build, which need not exist."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    build = re.sub(r"[^\w.+-]", "_", f"{version}-{revision}")
    return Path(cache, "marey", f"operators-{marey.__version__}-torch-{build}.json")


def _read(path: Path) -> Support | None:
    """Reads a cached support, `None` if there is no valid one."""
    try:
        objection, fields, inputs = json.loads(path.read_text(encoding="utf-8"))
        support = Support(objection, Fields(*fields), InputFields(*inputs))
    except (OSError, ValueError, TypeError):
        return None
    positions = (*support.fields, *support.inputs)
    is_valid = all(isinstance(position, int) and 0 <= position < WORDS for position in positions)
    return support if is_valid and isinstance(objection, str | None) else None


def _write(path: Path, support: Support) -> None:
    """Writes a file at once, because other ranks may be writing the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as file:
        json.dump(support, file)


def _try_in_child() -> Support:
    from ._doctor._probe import NoAnswer, Probe

    operators, fields, inputs = (
        Probe(f"torch_{question}") for question in ("operators", "fields", "inputs")
    )
    try:
        objection = operators.answer()
    except NoAnswer as error:
        objection = f"a trial of its callbacks failed: {error}"
    try:
        found = Fields(*fields.answer())
    except NoAnswer:
        found = UNKNOWN
    try:
        found_inputs = InputFields(*inputs.answer())
    except NoAnswer:
        found_inputs = UNKNOWN_INPUTS
    return Support(objection, found, found_inputs)


def try_known_operators() -> str | None:
    """Records known operators and compares; for a process of its own, because it may crash.

    Returns what differs, `None` if nothing does.
    """
    import torch

    try:
        _native.record_operators(True)
    except RuntimeError as error:
        return str(error)
    with tempfile.TemporaryDirectory() as folder:
        session = marey.start(os.path.join(folder, "operators"))
        _run_known_operators(torch)
        profile = marey.data.get(session)
        marey.finalize(session)
    if profile is None:
        return "marey is disabled"
    missing = _EXPECTED - set(_paths(profile[0], ()))
    return f"a trial did not record {' > '.join(min(missing))}" if missing else None


def _run_known_operators(torch: Any) -> None:
    weight = torch.ones(3, 4, requires_grad=True)
    with marey.scope("forward"):
        loss = torch.relu(torch.ones(2, 3) @ weight).sum()
    with marey.scope("backward"):
        loss.backward()
    with torch.profiler.record_function("a scope of the program"):
        torch.ones(1)


_EXPECTED = {
    ("forward", "aten::matmul", "aten::mm"),
    ("forward", "aten::relu"),
    ("forward", "aten::sum"),
    ("backward", "autograd::engine::evaluate_function: MmBackward0", "MmBackward0", "aten::mm"),
    ("a scope of the program", "aten::ones"),
}
"""Paths that `_run_known_operators` makes in every version."""


def _paths(node: dict[str, Any], outer: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for child in node["children"]:
        path = (*outer, child["frame"]["name"])
        yield path
        yield from _paths(child, path)
