"""The session of a training loop: its hooks, its pauses, its readings of memory, its file.

A session that records already, such as that of `marey run`, is used and left as it is: it is
neither paused nor ended here.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import marey
import marey.torch
from marey import (
    _collect,
    _command,
    _native,
    _process_exit,
    _recording,
    _session,
    _torch_hooks,
    _torch_memory,
)
from marey._flags import is_disabled
from marey._warning import warn
from marey.profile import start_for

from .config import ProfilerConfig

NOTE = "training"
"""The key of the note with the settings and the number of epochs."""

_UNKNOWN_BYTES = -1

_numbers = itertools.count()


class Recording:
    """The recording of a training loop, from `begin` to `end`, any number of times."""

    def __init__(self, config: ProfilerConfig) -> None:
        self._config = config
        self._folder = Path(config.output_dir or "").absolute()
        self._session: int | None = None
        self._is_open = False
        self._is_paused = False
        self._has_hooks = False
        self._undo = contextlib.ExitStack()
        self._host: _native.Memory | None = None
        self._process = os.getpid()
        self._runs: list[Path] = []
        self._saved_runs = 0

    @property
    def is_open(self) -> bool:
        """Whether `begin` is in effect in this process, and nobody else has ended its session."""
        is_alive = self._session is None or self._session in _native.sessions()
        return self._is_open and is_alive and self._process == os.getpid()

    @property
    def is_own(self) -> bool:
        """Whether the session was started here."""
        return self._session is not None

    def begin(self) -> None:
        """Starts a session unless one records, and installs the hooks of `marey.torch`.

        Does nothing under ``MAREY_DISABLE``, and in a child that was forked while this records:
        there the session of the parent goes on.
        """
        if is_disabled() or (self._is_open and self._process != os.getpid()):
            return
        self.end()
        self._process = os.getpid()
        if not _native.is_active():
            self._session = self._start()
        self._is_open = _native.is_active()
        if not self._is_open:
            return
        self._is_paused = False
        self._host = _native.Memory(_native.HOST_MEMORY)
        if self._config.collect_timing and not marey.torch.is_enabled():
            marey.torch.enable(
                modules=self._config.with_modules, memory=self._config.collect_memory
            )
            self._undo.callback(marey.torch.disable)
            self._has_hooks = True
        elif self._config.collect_memory and not _torch_memory.is_started():
            self._read_memory_of_devices()
        self.note(0)

    def _start(self) -> int | None:
        """Starts a session in the folder of the settings, else in a temporary one.

        Returns `None`, with a warning, if neither folder can be written.
        """
        name = f"training_profile-{os.getpid()}-{next(_numbers)}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            session = start_for("marey", self._folder / name, data="trace")
        except OSError as error:
            session = _start_in_temporary_folder(
                name, f"cannot record into {self._folder}: {error}"
            )
        if session is not None:
            if not self._runs:
                atexit.register(self._finish_at_exit)
            run = _native.run_dir(session)
            assert run is not None, "a trace has a run directory"
            self._runs.append(Path(run))
        return session

    def _read_memory_of_devices(self) -> None:
        """Reads the memory of devices without recording scopes."""
        torch = sys.modules.get("torch")
        if torch is not None:
            self._undo.callback(_torch_memory.start(torch, tuple, tuple))
            self._undo.callback(_torch_memory.read_at_optimizers(torch))

    def pause(self) -> None:
        """Stops recording until `resume`: sessions, hooks and operators."""
        if self._session is not None and not self._is_paused:
            self._is_paused = True
            _torch_hooks.pause()
            marey.deactivate(self._session)

    def resume(self) -> None:
        """Undoes `pause`."""
        if self._session is not None and self._is_paused:
            self._is_paused = False
            if self._session in _native.sessions():  # the program may have ended it
                marey.activate(self._session)
            _torch_hooks.resume()

    def record_operators(self, *, is_wanted: bool) -> None:
        """Begins or ends the recording of operators, with shapes as the settings say.

        Without effect if the program has installed the hooks, or another session records.
        """
        config = self._config
        if self._session is None or not self._has_hooks or "torch" not in sys.modules:
            return
        if is_wanted:
            marey.torch.enable(operators=True, shapes="all" if config.record_shapes else "off")
        else:
            _torch_hooks.stop_operators()

    def read_memory(self) -> None:
        """Reads the memory of devices and of the process."""
        if _torch_memory.is_started():
            _torch_memory.read_step()
            return
        resident = _native.resident_bytes()
        if resident is not None and self._host is not None:
            peak = _native.peak_resident_bytes()
            self._host.record(resident, _UNKNOWN_BYTES if peak is None else peak, _UNKNOWN_BYTES)

    def note(self, epochs: int) -> None:
        """Writes the settings and the number of epochs so far into the run."""
        values: dict[str, Any] = {"config": self._config.to_json(), "epochs": epochs}
        _native.note(NOTE, json.dumps(values))

    def end(self) -> None:
        """Removes the hooks and ends the session. Safe to call twice."""
        if not self._is_open or self._process != os.getpid():
            return
        self.resume()
        self._is_open = False
        self._has_hooks = False
        self._undo.close()
        session, self._session = self._session, None
        if session is not None and session in _native.sessions():
            marey.finalize(session, "marey")

    def write(self, path: Path) -> None:
        """Packs what was recorded so far into one file.

        Raises:
            OSError: The file cannot be written; what was recorded is kept.
            RuntimeError: Nothing was recorded, or the session records no trace.
        """
        runs = [str(run) for run in self._runs] or [self._run_in_use()]
        path.parent.mkdir(parents=True, exist_ok=True)
        if len(runs) == 1:
            _command.run("pack", runs[0], "-o", str(path), "--force")
        else:
            with tempfile.TemporaryDirectory(prefix="marey-", dir=path.parent) as folder:
                merged = os.path.join(folder, "merged.marey")
                _command.run("merge", *runs, "-o", merged)
                _command.run("pack", merged, "-o", str(path), "--force")
        self._saved_runs = len(self._runs)

    def _run_in_use(self) -> str:
        """Returns the run directory of a session that was not started here, up to date."""
        for session in _native.sessions():
            run = _native.run_dir(session)
            if run is not None:
                _session.settle()
                _native.checkpoint()
                return run
        if _native.sessions():
            raise RuntimeError(
                "the session that records writes no trace, so that no profile can be saved;"
                " use data='trace', or marey run -d trace"
            )
        raise RuntimeError(
            "nothing was recorded: no region was entered and no epoch was begun,"
            " or MAREY_DISABLE is set"
        )

    def _finish_at_exit(self) -> None:
        """Removes the folders of what was saved, or says where the recording is."""
        if self._process != os.getpid():
            return
        _process_exit.begin()
        self.end()
        for number, run in enumerate(self._runs):
            if number < self._saved_runs:
                if not _collect.is_recorded(str(run)):
                    shutil.rmtree(run, ignore_errors=True)
            elif run.is_dir():
                shown = _recording.shown_path(str(run), os.getcwd())
                _session.say(
                    f"the training profile was not saved; it is in {shown}:"
                    f" marey profile analyze {shown}"
                )


def export_chrome_trace(run: Path, path: Path) -> None:
    """Writes a run as a Chrome trace.

    Raises:
        OSError: The file cannot be written.
    """
    _command.run("export", str(run), "--format", "chrome-trace", "-o", str(path), "--force")


def _start_in_temporary_folder(name: str, problem: str) -> int | None:
    try:
        folder = tempfile.mkdtemp(prefix="marey-")
        session = start_for("marey", Path(folder) / name, data="trace")
    except OSError as error:
        warn(f"{problem}; nothing is recorded: {error}")
        return None
    warn(f"{problem}; recording into {folder}")
    return session
