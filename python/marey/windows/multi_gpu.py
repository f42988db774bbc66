"""`MultiGPUProfiler`: a profile for each rank and phase of a program."""

from __future__ import annotations

import os
import sys
from collections import Counter

import marey
from marey import _native
from marey._ranks import rank

__all__ = ["MultiGPUProfiler", "PhaseProfiler"]

MAX_SESSIONS = 32
"""Phases whose profile can still grow; 64 sessions can be alive in a process."""


class MultiGPUProfiler:
    """Writes a profile for each phase of this rank: ``<base_name>_rank<rank>_<phase>.hatchet``.

    Phases may overlap, and a phase may be entered again: its profile then has the data of all its
    entries. It is written at the end of the first entry, then by each checkpoint, and at last by
    `finalize` or at the end of the process.

    Args:
        base_name: First part of the paths.
        hook: Launch hook, as for `marey.start`.

    Attributes:
        rank: Rank of this process: that of ``torch.distributed``, else of the environment
            (``RANK``, ``SLURM_PROCID``, ``OMPI_COMM_WORLD_RANK``, ``PMI_RANK``), else 0.
        local_rank: ``LOCAL_RANK``, else 0.
        sessions: The session of each phase.
    """

    def __init__(
        self, base_name: str | os.PathLike[str] = "profile", *, hook: str | None = None
    ) -> None:
        self.base_name = os.fspath(base_name)
        self.rank = _rank()
        local_rank = os.environ.get("LOCAL_RANK", "0").strip()
        self.local_rank = int(local_rank) if local_rank.isdecimal() else 0
        self.sessions: dict[str, int | None] = {}
        self._hook = hook
        self._written: set[int] = set()
        self._entries: Counter[int] = Counter()  # open blocks by session

    def create_session(self, phase_name: str, backend: str | None = None) -> int | None:
        """Starts the session of a phase, or resumes it, and returns its number.

        Args:
            phase_name: Name of the phase, a part of the file's name.
            backend: Source of GPU activities, as for `marey.start`.

        Raises:
            TypeError: The name is not a text.
            ValueError: The name is empty or has a slash.
            OSError: The folder cannot be created.
            BackendUnavailable: The named backend cannot start.
        """
        if not isinstance(phase_name, str):
            raise TypeError(f"the name of a phase must be a text, not {phase_name!r}")
        if not phase_name or os.sep in phase_name:
            raise ValueError(f"{phase_name!r} is no name of a phase: it is a part of a file's name")
        known = self.sessions.pop(phase_name, None)
        if known is not None and known in _native.sessions():
            marey.activate(known)
            self.sessions[phase_name] = known  # as the latest one
            return known
        self._finalize_oldest()
        path = os.path.abspath(f"{self.base_name}_rank{self.rank}_{phase_name}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        session = marey.start(path, backend=backend, hook=self._hook)
        self.sessions[phase_name] = session
        return session

    def _repr_html_(self) -> str:
        from marey import _notebook

        return _notebook.dicts_html(
            [
                {"rank": self.rank, "phase": phase, "session": session}
                for phase, session in self.sessions.items()
            ]
        )

    def profile_phase(self, phase_name: str) -> PhaseProfiler:
        """Returns a context manager that records a phase."""
        return PhaseProfiler(self, phase_name)

    def finalize(self) -> None:
        """Ends the sessions of all phases and writes their profiles.

        Raises:
            OSError: A file cannot be written.
        """
        while self.sessions:
            self._finalize(self.sessions.popitem()[1])

    def enter(self, phase_name: str) -> int | None:
        """Starts or resumes the session of a phase, and returns its number."""
        session = self.create_session(phase_name)
        if session is not None:
            self._entries[session] += 1
        return session

    def leave(self, session: int) -> None:
        """Pauses the session of a phase; at the first end of the phase, writes its profile."""
        self._entries[session] -= 1
        if self._entries[session] > 0 or session not in _native.sessions():
            return
        is_first = session not in self._written
        self._written.add(session)
        marey.deactivate(session, flushing=is_first)

    def _finalize_oldest(self) -> None:
        """Ends the session that was left first, if there are many."""
        active = set(_native.active_sessions())
        paused = [name for name, session in self.sessions.items() if session not in active]
        if len(self.sessions) >= MAX_SESSIONS and paused:
            self._finalize(self.sessions.pop(paused[0]))

    @staticmethod
    def _finalize(session: int | None) -> None:
        if session is not None and session in _native.sessions():
            marey.finalize(session)


class PhaseProfiler:
    """Records the block of a ``with`` statement into the profile of a phase.

    Attributes:
        profiler: The `MultiGPUProfiler`.
        phase: Name of the phase.
        session_id: Number of the session in the block and after it; `None` before.
    """

    def __init__(self, profiler: MultiGPUProfiler, phase: str) -> None:
        self.profiler = profiler
        self.phase = phase
        self.session_id: int | None = None

    def __enter__(self) -> PhaseProfiler:
        self.session_id = self.profiler.enter(self.phase)
        return self

    def __exit__(self, *_: object) -> None:
        if self.session_id is not None:
            self.profiler.leave(self.session_id)

    def _repr_html_(self) -> str:
        from marey import _notebook

        return _notebook.dicts_html([{"phase": self.phase, "session_id": self.session_id}])


def _rank() -> int:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return rank() or 0
