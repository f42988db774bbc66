"""Running a program as `__main__` of this process, with the same visible state as in plain Python.

`load` sets up the process and reads the program; `run` runs it. Between the two calls the caller
opens the session (`_recording`).
"""

from __future__ import annotations

import functools
import importlib.util
import io
import os
import pkgutil
import runpy
import sys
from collections.abc import Callable
from importlib.machinery import BuiltinImporter, SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marey._run_options import Target


def load(target: Target) -> Callable[[], None]:
    """Sets `sys.argv`, `sys.path[0]` and `__main__` as plain Python does; returns the program.

    If the program cannot be loaded, plain Python replaces this process and reports the error.
    """
    switch = ["-m"] if target.kind == "module" else []
    sys.orig_argv[:] = [*_interpreter_argv(), *switch, *target.argv]
    sys.argv[:] = [*(switch or target.argv[:1]), *target.argv[1:]]
    main = _fresh_main()
    if target.kind == "module":
        return _load_module(target.argv[0])
    path = os.path.join(os.getcwd(), target.argv[0])
    if pkgutil.get_importer(path) is not None:
        return _load_archive(path)
    return _load_script(path, main)


def run(program: Callable[[], None]) -> None:
    """Runs the result of `load`. The interpreter handles its exceptions, without our frames."""
    try:
        program()
    except BaseException as error:
        _hide_our_frames(error)
        raise


def _interpreter_argv() -> list[str]:
    """Returns the interpreter and its flags: the arguments before those that call marey."""
    argv = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]
    return argv[:-2] if argv[-2:-1] == ["-m"] else argv[:-1]


def _fresh_main() -> ModuleType:
    main = ModuleType("__main__")
    main.__loader__ = BuiltinImporter
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    return main


def _load_module(name: str) -> Callable[[], None]:
    _replace_path0(os.getcwd())
    if importlib.util.find_spec(name.partition(".")[0] or ".") is None:
        _exec_plain_python()
    return functools.partial(_run_module_as_main, name, True)


def _load_archive(path: str) -> Callable[[], None]:
    """Loads a directory or a zip file with a `__main__.py`."""
    _replace_path0(path, even_if_safe=True)
    return functools.partial(_run_module_as_main, "__main__", False)


def _load_script(path: str, main: ModuleType) -> Callable[[], None]:
    _replace_path0(os.path.dirname(os.path.realpath(path)))
    code, loader = _read_code(path)
    main.__file__ = path
    main.__loader__ = loader("__main__", path)
    main.__dict__["__cached__"] = None
    return functools.partial(exec, code, main.__dict__)


# The function that `python -m` calls, so that frames, spec and messages of the module are the same.
_run_module_as_main: Callable[[str, bool], Any] = vars(runpy)["_run_module_as_main"]


def _replace_path0(path0: str, *, even_if_safe: bool = False) -> None:
    """Replaces our entry of `sys.path` with the program's directory; `-P` and `-I` have neither."""
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path[0] = path0
    elif even_if_safe:
        sys.path.insert(0, path0)


def _read_code(path: str) -> tuple[CodeType, type[SourceFileLoader] | type[SourcelessFileLoader]]:
    try:
        with io.open_code(path) as file:
            content = file.read()
        compiled = pkgutil.read_code(io.BytesIO(content))
        if compiled is not None:
            return compiled, SourcelessFileLoader
        return compile(content, path, "exec", dont_inherit=True), SourceFileLoader
    except Exception as error:
        is_pipe = os.path.exists(path) and not os.path.isfile(path)  # cannot be read again
        if not is_pipe:
            _exec_plain_python()
        _hide_our_frames(error)
        raise


def _exec_plain_python() -> None:
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _hide_our_frames(error: BaseException) -> None:
    """Makes the interpreter show only the program's frames when it reports `error`."""
    shown = error.__traceback__
    while shown is not None and shown.tb_frame.f_globals is globals():
        shown = shown.tb_next
    program_hook = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, _: TracebackType | None) -> None:
        sys.excepthook = program_hook
        sys.last_traceback = shown
        try:
            program_hook(kind, value.with_traceback(shown), shown)
        except Exception as failure:
            print("Error in sys.excepthook:", file=sys.stderr)
            in_hook = failure.__traceback__ and failure.__traceback__.tb_next
            sys.__excepthook__(type(failure), failure.with_traceback(in_hook), in_hook)
            print("\nOriginal exception was:", file=sys.stderr)
            sys.__excepthook__(kind, value, shown)

    sys.excepthook = hook
