"""Runs of any number of host spans, recorded by `spans.c` with the installed wheel.

They are stored in a folder by size, so that later measurements reuse them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from native import LIBRARY, compile_c

SOURCE = Path(__file__).with_name("spans.c")


@dataclass(frozen=True)
class RunStore:
    """Runs in a folder, and the program that collects them."""

    folder: Path
    marey: Path

    def run(self, spans: int) -> Path:
        """Returns the collected run of one process: steps of 100 scopes, 2,000 names.

        Raises:
            subprocess.CalledProcessError: Recording or collection failed.
        """
        path = self.folder / f"spans_{spans}.marey"
        if not (path / "manifest.json").is_file():
            self._record(self._build_program(), path, spans)
            subprocess.run([self.marey, "collect", "--quiet", path], check=True)
        return path

    def uncollected_run(self, ranks: int, spans: int) -> Path:
        """Returns an uncollected run of this many processes, each with this many spans."""
        path = self.folder / f"spools_{ranks}_{spans}.marey"
        marker = path.with_suffix(".recorded")
        if not marker.is_file():
            shutil.rmtree(path, ignore_errors=True)
            program = self._build_program()
            for rank in range(ranks):
                self._record(program, path, spans, rank)
            marker.touch()
        return path

    def runs_of_ranks(self, ranks: int, spans: int) -> list[Path]:
        """Returns this many collected runs of one process with this many spans each."""
        folder = self.folder / f"runs_{ranks}_{spans}"
        marker = folder / "recorded"
        paths = [folder / f"rank_{rank}.marey" for rank in range(ranks)]
        if not marker.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            program = self._build_program()
            for rank, path in enumerate(paths):
                self._record(program, path, spans, rank)
            subprocess.run([self.marey, "collect", "--quiet", *paths], check=True)
            marker.touch()
        return paths

    def _build_program(self) -> Path:
        program = self.folder / "spans"
        if not program.is_file() or program.stat().st_mtime < SOURCE.stat().st_mtime:
            self.folder.mkdir(parents=True, exist_ok=True)
            compile_c(program, "cc", "-std=gnu11", SOURCE.name)
        return program

    def _record(self, program: Path, path: Path, spans: int, rank: int | None = None) -> None:
        environment = {
            **os.environ,
            "MAREY_LIB": str(LIBRARY),
            "MAREY_RUN_DIR": str(path),
            "MAREY_COLLECT": "0",
        }
        if rank is not None:
            environment["RANK"] = str(rank)
        command = [str(program), str(path.with_suffix("")), str(spans)]
        subprocess.run(command, check=True, env=environment)
