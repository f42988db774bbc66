"""The profiler for training loops."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from marey._ranks import is_only_rank, with_rank
from marey._warning import warn

from .callback import ProfilerCallback
from .config import ProfilerConfig
from .loop import Loop, MakeRegion
from .recording import export_chrome_trace

DEFAULT_FILE = "profile.pt"


class TrainingProfiler:
    """Records a training loop in some of its epochs.

    Recording begins with the first region, epoch or `step`, or at the start of the ``with`` block.
    Without epochs everything is recorded. If the program dies, what was recorded until then is in
    the folder ``training_profile-PID-N.marey``, which `ProfileAnalyzer` opens.

    Args:
        config: The settings; all defaults if not given.
    """

    profile_region: MakeRegion
    """Returns a scope with a name, ``profile_region("forward")``: a context manager and decorator.

    Args of a call: the name, and optionally metrics, as of `marey.scope`, whose object it is.
    """

    def __init__(self, config: ProfilerConfig | None = None) -> None:
        self.config = ProfilerConfig() if config is None else config
        self.loop = Loop(self.config, self._use_region)
        self.callback = ProfilerCallback(self)

    def _use_region(self, region: MakeRegion) -> None:
        self.profile_region = region

    def step(self) -> None:
        """Ends a unit of sampling, which counts as an epoch, and begins the next.

        For loops without a trainer that calls `callback`. What comes before the first call is
        recorded, and belongs to no epoch.
        """
        self.loop.step()

    def save(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Ends the recording and writes what was recorded so far, also by earlier recordings.

        An existing file is replaced. Recording begins anew with the next region or epoch. In a job
        with several ranks, ``.rank<n>`` is put before the suffix.

        Args:
            path: The file, of any name; ``profile.pt`` if not given. A relative path is relative to
                `output_dir`.

        Returns:
            The absolute path of the file; `None` if the profiler is not enabled.

        Raises:
            OSError: A file cannot be written. What was recorded is kept for another call.
            RuntimeError: Nothing was recorded.
        """
        if not self.config.enabled:
            warn("the training profiler is not enabled: nothing was recorded, and nothing is saved")
            return None
        self.loop.end_training()
        folder = Path(self.config.output_dir or "").absolute()
        file = _name_of_rank(folder / os.fspath(DEFAULT_FILE if path is None else path))
        if self.config.storage_format == "json":
            self._write_json(file)
        else:
            self.loop.recording.write(file)
            self._export(file, file)
        return str(file)

    def _repr_html_(self) -> str:
        from marey import _notebook

        return _notebook.dicts_html([self.loop.progress()])

    def _write_json(self, file: Path) -> None:
        from .data import ProfileData  # loads the engine, which a profiled program does not need

        with tempfile.TemporaryDirectory(prefix="marey-") as folder:
            packed = Path(folder, "profile.marey.zip")
            self.loop.recording.write(packed)
            file.parent.mkdir(parents=True, exist_ok=True)
            ProfileData.load(packed).write(file)
            self._export(packed, file)

    def _export(self, run: Path, file: Path) -> None:
        if self.config.export_chrome_trace:
            export_chrome_trace(run, file.with_suffix(".trace.json"))

    def __enter__(self) -> TrainingProfiler:
        self.loop.begin_training()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.end_training()


def _name_of_rank(file: Path) -> Path:
    """Returns a file of its own for each rank of a job with several."""
    if is_only_rank():
        return file
    return Path(with_rank(str(file.parent / file.stem), file.suffix))
