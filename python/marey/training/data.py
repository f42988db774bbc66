"""The contents of a profile: sums of a run (`reader`), or the JSON of an earlier reading."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import marey
from marey._saving import save_text

from .bottleneck import MemoryPoint
from .config import ProfilerConfig

FORMAT = "marey.training"
VERSION = 1


class Epoch(NamedTuple):
    """An epoch that was recorded to its end."""

    number: int
    """From 0, those that were not recorded included."""
    probability: float
    """The probability with which it was drawn."""
    duration_ms: float | None
    """`None` if times were not collected."""
    has_operators: bool = False
    """Whether operators were recorded, which makes it longer."""


class Operation(NamedTuple):
    """All calls of one name and kind, extrapolated to all epochs."""

    name: str
    kind: str
    total_ms: float
    """Exclusive time, so that operations add up to the time of the run."""
    inclusive_ms: float
    """Time with that of the operations inside."""
    calls: float
    gpu_ms: float
    """Time of what it launched on GPUs, inner operations included; 0 if unknown."""


class Finding(NamedTuple):
    """A finding of a rule."""

    rule: str
    subject: str
    percent: float
    """Of the recorded time."""
    impact_ms: float
    """The time that it takes in all epochs."""
    remedy: str


@dataclass
class ProfileData:
    """The contents of a profile. `load` reads them from a file."""

    path: str
    config: ProfilerConfig
    """The settings of the recording; the defaults for a file of another tool."""
    total_epochs: int
    """Epochs of the training, recorded or not; without epochs, the number of steps."""
    epochs: list[Epoch]
    """The recorded epochs."""
    steps: int
    """Recorded steps."""
    operations: list[Operation]
    """The longest exclusive time first."""
    region_times: dict[str, list[float]]
    """The times of the recorded calls in ms by path, names separated by ``/``; not extrapolated.

    In a profile of more than a million calls each path has one number, their sum.
    """
    memory: list[MemoryPoint]
    gpu_ms: float
    """Time of all that ran on GPUs, extrapolated to all epochs; 0 if unknown."""
    flops: float | None
    """Floating-point operations of the operators whose shapes were recorded; `None` if none.

    Not extrapolated: they are of the epochs with operators.
    """
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_extrapolated(self) -> bool:
        """Whether totals are estimates, because some epochs were not recorded."""
        return 0 < len(self.epochs) < self.total_epochs

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ProfileData:
        """Reads a run, a packed run, the JSON of `write`, or any file that `marey.open` reads.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is none of these; the message has the path and the reason.
        """
        from .reader import read_run  # imports the classes of this module

        document = _read_json(path)
        if document is not None:
            return cls._from_json(os.fspath(path), document)
        with marey.open(path) as run:
            return read_run(run)

    def _repr_html_(self) -> str:
        from marey import _notebook

        return _notebook.dicts_html([operation._asdict() for operation in self.operations])

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the contents as JSON.

        Raises:
            OSError: The file cannot be written. An existing file is unchanged.
        """
        values = asdict(self)
        del values["path"]
        values["config"] = self.config.to_json()
        document = {"format": FORMAT, "version": VERSION, **values}
        save_text(path, json.dumps(document, separators=(",", ":")) + "\n", "profile")

    @classmethod
    def _from_json(cls, path: str, document: dict[str, Any]) -> ProfileData:
        if document.get("version") != VERSION:
            raise ValueError(
                f"{path}: version {document.get('version')!r} of the profile is unknown;"
                f" this marey reads version {VERSION}"
            )
        try:
            return cls(
                path=os.path.abspath(path),
                config=ProfilerConfig.from_json(document["config"]),
                total_epochs=int(document["total_epochs"]),
                epochs=[Epoch(*values) for values in document["epochs"]],
                steps=int(document["steps"]),
                operations=[Operation(*values) for values in document["operations"]],
                region_times={str(name): times for name, times in document["region_times"].items()},
                memory=[MemoryPoint(*values) for values in document["memory"]],
                gpu_ms=float(document.get("gpu_ms", 0.0)),  # earlier versions did not write it
                flops=document["flops"],
                findings=[Finding(*values) for values in document["findings"]],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a complete profile: {error!r}") from None


def check_events(path: str | os.PathLike[str]) -> None:
    """Checks that a file may have events, and not the sums of a profile alone.

    Raises:
        OSError: The file cannot be read.
        ValueError: It was saved as JSON.
    """
    if _begins_as_json(path):
        raise ValueError(
            f"{os.fspath(path)} has the sums of a profile, not its events:"
            " use a profile that was saved with storage_format='binary'"
        )


_START = f'{{"format":"{FORMAT}"'.encode()


def _begins_as_json(path: str | os.PathLike[str]) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_START)) == _START
    except IsADirectoryError:
        return False


def _read_json(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Returns the document of a profile that was saved as JSON; `None` for any other file."""
    if not _begins_as_json(path):
        return None
    try:
        document: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not a complete profile: {error}") from None
    return document
