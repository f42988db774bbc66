"""Checks of all libcupti libraries: which one is used, and whether it accepts a subscriber."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from marey._backend import HELD_BY_OTHER
from marey._names import ENV_CUPTI_LIB

from ._check import Check, State
from ._nvidia import SECTION, Driver, Rows, unavailable
from ._probe import NoAnswer, Probe


@dataclass(frozen=True)
class Cupti:
    """The result of the search for a libcupti."""

    checks: list[Check]
    used: str | None = None
    """Name of the library by which kernels are recorded."""
    failure: str | None = None
    """The reason why no library can be used."""
    is_held: bool = False
    """Whether the reason is that another tool holds CUPTI."""
    does_crash: bool = False
    """Whether a program would crash in the library that is tried first."""


@dataclass(frozen=True)
class _Library:
    """A libcupti that was found."""

    path: str
    source: str
    state: State = "ok"
    problem: str | None = None
    """The reason why the library cannot be used."""
    does_crash: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    subscriber: Check | None = None
    """Whether the library accepts a subscriber; `None` if that was not checked."""

    @property
    def is_usable(self) -> bool:
        # Without a driver, versions of libraries are not checked.
        return self.subscriber is not None

    @property
    def name(self) -> str:
        return f"CUPTI {self.facts['cuda']}" if self.facts.get("cuda") else "libcupti"


def cupti(driver: Driver, loaded_by_torch: str | None) -> Cupti:
    """Checks all libcupti libraries, each in its own process."""
    if driver.libraries is None:
        return Cupti([], failure=driver.checks[0].text)
    named = os.environ.get(ENV_CUPTI_LIB)
    libraries = _probe_libraries(driver.libraries, None if named else loaded_by_torch)
    # A program skips the libraries before this one, or crashes in this one.
    taken = next((one for one in libraries if one.is_usable or one.does_crash), None)
    checks = [_line(one, is_taken=one is taken) for one in libraries] or [_not_found(named)]
    if taken is None or taken.does_crash:
        index = 0 if taken is None else libraries.index(taken)
        if checks[index].state != "ok":
            checks[index] = replace(checks[index], mend=_mend(libraries, driver, named))
    if driver.cuda is None:
        return Cupti(checks, failure=driver.checks[0].text)
    if taken is None:
        why = "; ".join(check.text for check in checks)
        return Cupti(checks, failure=f"no libcupti can be used: {why}")
    subscriber = taken.subscriber
    if subscriber is None:
        return Cupti(checks, failure=f"{taken.path}: {taken.problem}", does_crash=True)
    checks.append(subscriber)
    if subscriber.state == "ok":
        return Cupti(checks, used=f"{taken.name} ({taken.path})")
    is_held = subscriber.facts["code"] in HELD_BY_OTHER
    return Cupti(checks, failure=subscriber.text, is_held=is_held)


def _not_found(named: str | None) -> Check:
    if named:
        text = f"no libcupti.so in {named} ({ENV_CUPTI_LIB})"
        return Check(SECTION, "libcupti", "broken", text)
    return Check(SECTION, "libcupti", "missing", "no libcupti was found")


def _mend(libraries: list[_Library], driver: Driver, named: str | None) -> str:
    usable = next((one for one in libraries if one.is_usable), None)
    if usable is not None:
        return f"export {ENV_CUPTI_LIB}={shlex.quote(usable.path)}"
    if named:
        return f"unset {ENV_CUPTI_LIB}, or set it to a libcupti.so or its folder"
    suffix = "-cu12" if driver.cuda is not None and driver.cuda[0] < 13 else ""
    return f"pip install nvidia-cuda-cupti{suffix}"


def _probe_libraries(candidates: Iterable[tuple[str, str]], loaded: str | None) -> list[_Library]:
    """Probes each library once, the one that torch has `loaded` first."""
    if loaded is not None:
        real = os.path.realpath(loaded)
        others = (candidate for candidate in candidates if os.path.realpath(candidate[0]) != real)
        candidates = [(loaded, "loaded by torch"), *others]
    # All at the same time, because each probe waits for the driver.
    probes = [(path, source, Probe(f"library {path}")) for path, source in candidates]
    found: dict[str, _Library] = {}
    for path, source, probe in probes:
        library = _library(path, source, probe)
        if library is not None:
            found.setdefault(os.path.realpath(library.path), library)
    return list(found.values())


def _library(path: str, source: str, probe: Probe) -> _Library | None:
    """Returns the result of a probe; `None` for a name that the loader does not find."""
    try:
        rows: Rows = probe.answer()
    except NoAnswer as error:
        return _Library(path, source, "broken", str(error), does_crash=True)
    if not rows:
        return None
    name, *fields = rows[0]
    if name == "refused":
        kind, reason = fields
        # A library for another driver is intact, but wrong if the user has named it.
        is_passed_over = kind in ("too_old", "newer_than_driver") and source != ENV_CUPTI_LIB
        state: State = "missing" if is_passed_over else "broken"
        return _Library(path, source, state, reason, facts={"refusal": kind})
    path, api_version, cuda = fields
    facts = {"api_version": int(api_version) if api_version else None, "cuda": cuda or None}
    subscriber = _subscriber(*rows[1]) if rows[1:] else None
    return _Library(path, source, facts=facts, subscriber=subscriber)


def _subscriber(name: str, *fields: str) -> Check:
    if name == "unavailable":
        return unavailable("subscriber", list(fields), broken=("subscribe", "enable"))
    is_beside_others = fields == ("1",)
    text = "CUPTI accepts a tool" + (", beside others" if is_beside_others else ", and only one")
    facts = {"step": None, "code": None, "is_beside_others": is_beside_others}
    return Check(SECTION, "subscriber", "ok", text, facts=facts)


def _line(library: _Library, *, is_taken: bool) -> Check:
    text = f"{library.name}: {library.path} ({library.source})"
    if library.problem is not None:
        text += f": {library.problem}"
    elif is_taken:
        text += ", used"
    elif library.is_usable:
        text += ", not needed"
    facts = {
        "path": library.path,
        "source": library.source,
        "api_version": None,
        "cuda": None,
        "refusal": "crash" if library.does_crash else None,
        "is_used": is_taken,
        **library.facts,
    }
    return Check(SECTION, "libcupti", library.state, text, facts=facts)
