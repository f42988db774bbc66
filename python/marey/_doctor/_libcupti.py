"""Checks of all libcupti libraries: which one is used, and whether it accepts a subscriber."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from marey._backend import OTHER_SUBSCRIBER_CODES
from marey._names import ENV_CUPTI_LIB

from ._check import Check, State
from ._nvidia import SECTION, Driver, Rows, unavailable_check
from ._probe import NoAnswer, Probe


@dataclass(frozen=True)
class Cupti:
    """The result of the search for a libcupti."""

    checks: list[Check]
    selected: str | None = None
    """Name of the library by which kernels are recorded."""
    failure: str | None = None
    """The reason why no library can be used."""
    has_other_subscriber: bool = False
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


def check_cupti(driver: Driver, loaded_by_torch: str | None) -> Cupti:
    """Checks all libcupti libraries, each in its own process."""
    if driver.libraries is None:
        return Cupti([], failure=driver.checks[0].text)
    configured = os.environ.get(ENV_CUPTI_LIB)
    libraries = _probe_libraries(driver.libraries, None if configured else loaded_by_torch)
    # A program skips the libraries before this one, or crashes in this one.
    selected = next(
        (library for library in libraries if library.is_usable or library.does_crash), None
    )
    checks = [_library_check(library, is_selected=library is selected) for library in libraries]
    checks = checks or [_not_found_check(configured)]
    if selected is None or selected.does_crash:
        index = 0 if selected is None else libraries.index(selected)
        if checks[index].state != "ok":
            checks[index] = replace(checks[index], mend=_remedy(libraries, driver, configured))
    if driver.cuda is None:
        return Cupti(checks, failure=driver.checks[0].text)
    if selected is None:
        reasons = "; ".join(check.text for check in checks)
        return Cupti(checks, failure=f"no libcupti can be used: {reasons}")
    subscriber = selected.subscriber
    if subscriber is None:
        return Cupti(checks, failure=f"{selected.path}: {selected.problem}", does_crash=True)
    checks.append(subscriber)
    if subscriber.state == "ok":
        return Cupti(checks, selected=f"{selected.name} ({selected.path})")
    has_other_subscriber = subscriber.facts["code"] in OTHER_SUBSCRIBER_CODES
    return Cupti(checks, failure=subscriber.text, has_other_subscriber=has_other_subscriber)


def _not_found_check(configured: str | None) -> Check:
    if configured:
        text = f"no libcupti.so in {configured} ({ENV_CUPTI_LIB})"
        return Check(SECTION, "libcupti", "broken", text)
    return Check(SECTION, "libcupti", "missing", "no libcupti was found")


def _remedy(libraries: list[_Library], driver: Driver, configured: str | None) -> str:
    usable = next((library for library in libraries if library.is_usable), None)
    if usable is not None:
        return f"export {ENV_CUPTI_LIB}={shlex.quote(usable.path)}"
    if configured:
        return f"unset {ENV_CUPTI_LIB}, or set it to a libcupti.so or its folder"
    suffix = "-cu12" if driver.cuda is not None and driver.cuda[0] < 13 else ""
    return f"pip install nvidia-cuda-cupti{suffix}"


def _probe_libraries(candidates: Iterable[tuple[str, str]], loaded: str | None) -> list[_Library]:
    """Probes each library once, the one that torch has `loaded` first."""
    if loaded is not None:
        torch_path = os.path.realpath(loaded)
        others = (pair for pair in candidates if os.path.realpath(pair[0]) != torch_path)
        candidates = [(loaded, "loaded by torch"), *others]
    # All at the same time, because each probe waits for the driver.
    probes = [(path, source, Probe(f"library {path}")) for path, source in candidates]
    libraries: dict[str, _Library] = {}
    for path, source, probe in probes:
        library = _read_probe(path, source, probe)
        if library is not None:
            libraries.setdefault(os.path.realpath(library.path), library)
    return list(libraries.values())


def _read_probe(path: str, source: str, probe: Probe) -> _Library | None:
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
        # A library for another driver is intact, but wrong if the user has set it.
        is_passed_over = kind in ("too_old", "newer_than_driver") and source != ENV_CUPTI_LIB
        state: State = "missing" if is_passed_over else "broken"
        return _Library(path, source, state, reason, facts={"refusal": kind})
    path, api_version, cuda = fields
    facts = {"api_version": int(api_version) if api_version else None, "cuda": cuda or None}
    subscriber = _subscriber_check(*rows[1]) if rows[1:] else None
    return _Library(path, source, facts=facts, subscriber=subscriber)


def _subscriber_check(name: str, *fields: str) -> Check:
    if name == "unavailable":
        return unavailable_check("subscriber", list(fields), broken=("subscribe", "enable"))
    accepts_others = fields == ("1",)
    text = "CUPTI accepts a tool" + (", beside others" if accepts_others else ", and only one")
    facts = {"step": None, "code": None, "is_beside_others": accepts_others}
    return Check(SECTION, "subscriber", "ok", text, facts=facts)


def _library_check(library: _Library, *, is_selected: bool) -> Check:
    text = f"{library.name}: {library.path} ({library.source})"
    if library.problem is not None:
        text += f": {library.problem}"
    elif is_selected:
        text += ", used"
    elif library.is_usable:
        text += ", not needed"
    facts = {
        "path": library.path,
        "source": library.source,
        "api_version": None,
        "cuda": None,
        "refusal": "crash" if library.does_crash else None,
        "is_used": is_selected,
        **library.facts,
    }
    return Check(SECTION, "libcupti", library.state, text, facts=facts)
