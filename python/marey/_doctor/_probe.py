"""Questions that a child process answers, because the answer may be a crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

# Isolated from the program's directory, but with the same packages. Libraries print to
# stderr, and `os._exit` skips their exit handlers.
_PROGRAM = """\
import json, os, resource, sys
answers = os.dup(1)
os.dup2(2, 1)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.path[:] = json.loads(sys.argv[1])
from marey._doctor import _answers
with open(answers, "w") as file:
    json.dump(_answers.answer(sys.argv[2]), file)
os._exit(0)
"""

_TIMEOUT_SECS = 120
"""A driver with many devices takes tens of seconds to start."""


class NoAnswer(Exception):
    """The process ended without an answer. The message has the cause."""


class Probe:
    """A child process that answers a question. Several may run at the same time."""

    def __init__(self, question: str) -> None:
        paths = [os.path.abspath(path) for path in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, json.dumps(paths), question],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def answer(self) -> Any:
        """Waits for the answer and returns it.

        Raises:
            NoAnswer: The process crashed, failed or timed out.
        """
        try:
            answer, errors = self._process.communicate(timeout=_TIMEOUT_SECS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise NoAnswer(f"it did not answer in {_TIMEOUT_SECS} seconds") from None
        code = self._process.returncode
        if code < 0:
            raise NoAnswer(f"it crashed with {_signal_name(-code)}")
        if code > 0:
            lines = errors.decode(errors="replace").strip().splitlines()
            raise NoAnswer(lines[-1] if lines else f"it ended the process with exit code {code}")
        return json.loads(answer)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
