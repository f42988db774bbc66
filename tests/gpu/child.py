"""Runs one check in the working directory: `child.py CHECK WORLD RESULT`.

Writes the outcome as JSON to the file RESULT. A process without this file has crashed.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import checks  # noqa: F401 - registers them
from case import CHECKS, Check, Skipped
from worlds import WORLDS


def main() -> None:
    name, world, path = sys.argv[1:]
    check = next(check for check in CHECKS if check.name == name)
    Path(path).write_text(json.dumps(outcome(check, world)))


def outcome(check: Check, world: str) -> dict[str, Any]:
    """Runs the check and returns its outcome."""
    try:
        figures = check.function(WORLDS[world])
    except Skipped as reason:
        return {"outcome": "skipped", "why": str(reason)}
    except AssertionError as problem:
        return {"outcome": "failed", "why": str(problem)}
    except Exception as error:
        traceback.print_exc()
        return {"outcome": "failed", "why": f"{type(error).__name__}: {error}"}
    return {"outcome": "ok", "figures": figures}


if __name__ == "__main__":
    main()
