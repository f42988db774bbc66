"""Starts profiling in each Python process below a `marey run`, then runs the next sitecustomize.

Any interpreter may import this file, also an old one or one without marey. So it uses only syntax
that all versions support, and prints nothing if marey is not installed.
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

# Remove all traces of this file: its directory is removed from sys.path, and the next
# sitecustomize, if there is one, replaces this module in sys.modules.
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _here]
_this = sys.modules.pop(__name__)
try:
    __import__(__name__)
except ImportError as error:
    if getattr(error, "name", __name__) != __name__:
        raise
    sys.modules[__name__] = _this
