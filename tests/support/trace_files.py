"""Helpers to write a trace, and to read traces, spools and runs that a test has written."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import marey
from profiles import profile_names

Event = dict[str, Any]

# The last frame of a spool, without contents: its length, its CRC and its kind.
END = bytes([1, 0, 0, 0, *zlib.crc32(b"\x0b").to_bytes(4, "little"), 0x0B])


@contextmanager
def traced(name: str) -> Iterator[None]:
    """Records a trace, of which a run is all that is written."""
    session = marey.start(name, data="trace")
    yield
    marey.finalize(session, "marey")


def events(path: str | Path) -> list[Event]:
    """Returns the scopes of a trace in order of start."""
    document = json.loads(Path(path).read_text())
    found = [event for event in document["traceEvents"] if event["ph"] == "X"]
    return sorted(found, key=lambda event: (event["ts"], -event["dur"]))


def paths(path: str | Path) -> list[str]:
    """Returns the paths of the scopes of a trace in order of start; names joined by slashes."""
    return ["/".join(event["args"]["call_stack"][1:]) for event in events(path)]


def losses(path: str | Path) -> dict[str, int]:
    document = json.loads(Path(path).read_text())
    return {cause: count for cause, count in document["marey"]["losses"].items() if count}


def traces(directory: str | Path = ".") -> list[str]:
    return profile_names(".chrome_trace", directory)


def spools(profile: str) -> list[str]:
    return sorted(path.name for path in Path(f"{profile}.marey/spool").glob("*"))


def spool(profile: str) -> bytes:
    """Returns the only spool of a run."""
    [name] = spools(profile)
    return Path(f"{profile}.marey/spool", name).read_bytes()


def run_rows(path: str | Path, query: str) -> list[tuple[Any, ...]]:
    """Returns the rows that a query finds in a run."""
    with marey.open(path) as run:
        return run.sql(query).rows()
