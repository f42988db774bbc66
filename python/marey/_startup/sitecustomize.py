"""Run at the start of each Python process below a `marey run`: follow it too, then step aside.

Any interpreter may meet this file, old ones and those without marey too, so it keeps to syntax that
all of them know and says nothing where there is no marey.
"""
# ruff: noqa: I002

import os
import sys

if os.environ.get("MAREY_RUN"):
    try:
        from marey._recording import follow
    except (ImportError, SyntaxError):
        pass  # another environment, or a Python older than marey supports
    else:
        try:
            follow()
        except Exception as error:
            process = "marey: process " + str(os.getpid())
            sys.stderr.write(process + " is not profiled: " + str(error) + "\n")

# From here on the process must look as if this file were not there: its directory leaves sys.path,
# and the sitecustomize that comes next, if there is one, takes our place in sys.modules.
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _here]
_this = sys.modules.pop(__name__)
try:
    __import__(__name__)
except ImportError as error:
    if getattr(error, "name", __name__) != __name__:
        raise
    sys.modules[__name__] = _this
