"""The options `--cflags`, `--libs`, `--cmakedir` and `--pkgconfigdir` of the command `marey`.

C and C++ programs are built with what these options print. The paths are those of the installed
package, with which `libmarey.so` and the headers move.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_LIB = os.path.join(_PACKAGE, "lib")
_VALUES = {
    "--cflags": ("-I" + os.path.join(_PACKAGE, "include"),),
    "--libs": (f"-Wl,-rpath,{_LIB}", "-pthread", "-ldl"),
    "--cmakedir": (os.path.join(_LIB, "cmake", "marey"),),
    "--pkgconfigdir": (os.path.join(_LIB, "pkgconfig"),),
}


def are_build_options(arguments: Sequence[str]) -> bool:
    """Whether all arguments, and at least one, are options of this module."""
    return bool(arguments) and all(argument in _VALUES for argument in arguments)


def text(arguments: Sequence[str]) -> str:
    """Returns the values of options in the order of the arguments, quoted for a shell."""
    return " ".join(shlex.quote(value) for option in arguments for value in _VALUES[option])
