"""Calls a function when a line of a function begins.

From CPython 3.12 on by `sys.monitoring`, with events of that function's code alone, so that other
code runs as without them. Before, by a trace function, which makes all Python of its threads
slower.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any, Protocol

OnLine = Callable[[types.CodeType, int, types.FrameType], bool]
"""Called with the code, the line and the frame, before the line runs. `False`: the line need not be
reported until `LineEvents.resume`."""


class LineEvents(Protocol):
    """Events of the lines of some codes."""

    can_pause: bool
    """Whether a line that need not be reported costs nothing."""

    def begin(self, code: types.CodeType) -> None:
        """Reports the lines of a code from now on.

        Raises:
            RuntimeError: The program has a debugger or another tool in this place.
        """

    def resume(self, code: types.CodeType) -> None:
        """Reports again the lines that need not be reported."""

    def end(self, code: types.CodeType) -> None:
        """Ends the reports of a code."""


def line_events(on_line: OnLine) -> LineEvents:
    """Returns the events of this interpreter."""
    if sys.version_info >= (3, 12):
        return _Monitoring(on_line)
    return _Tracing(on_line)


if sys.version_info >= (3, 12):
    from sys import monitoring

    class _Monitoring:
        """Events of `sys.monitoring`, under a number that no other tool uses."""

        can_pause = True

        def __init__(self, on_line: OnLine) -> None:
            self._on_line = on_line
            self._codes: dict[int, types.CodeType] = {}
            self._tool: int | None = None

        def begin(self, code: types.CodeType) -> None:
            if self._tool is None:
                self._tool = _free_tool()
                monitoring.use_tool_id(self._tool, "marey")
                monitoring.register_callback(self._tool, monitoring.events.LINE, self._on_event)
            self._codes[id(code)] = code
            monitoring.set_local_events(self._tool, code, monitoring.events.LINE)

        def resume(self, code: types.CodeType) -> None:
            if self._tool is not None and id(code) in self._codes:
                # Lines that were disabled stay so until the events are set anew.
                monitoring.set_local_events(self._tool, code, monitoring.events.NO_EVENTS)
                monitoring.set_local_events(self._tool, code, monitoring.events.LINE)

        def end(self, code: types.CodeType) -> None:
            if self._tool is None or self._codes.pop(id(code), None) is None:
                return
            monitoring.set_local_events(self._tool, code, monitoring.events.NO_EVENTS)
            if not self._codes:
                monitoring.register_callback(self._tool, monitoring.events.LINE, None)
                monitoring.free_tool_id(self._tool)
                self._tool = None

        def _on_event(self, code: types.CodeType, line: int) -> object:
            is_needed = self._on_line(code, line, sys._getframe(1))
            return None if is_needed else monitoring.DISABLE

    def _free_tool() -> int:
        """Returns the number of a tool that is not in use, those without a meaning first."""
        for tool in (4, 3, monitoring.PROFILER_ID, monitoring.OPTIMIZER_ID):
            if monitoring.get_tool(tool) is None:
                return tool
        tools = ", ".join(str(monitoring.get_tool(tool)) for tool in range(6))
        raise RuntimeError(f"all tools of sys.monitoring are in use: {tools}")

else:

    class _Tracing:
        """Events of a trace function, in the calling thread and those that start later."""

        can_pause = False

        def __init__(self, on_line: OnLine) -> None:
            self._on_line = on_line
            self._codes: dict[int, types.CodeType] = {}
            # One object, which is compared by identity: `==` may call code of another tracer.
            self._trace: Any = self._trace_call

        def begin(self, code: types.CodeType) -> None:
            for trace in (sys.gettrace(), threading.gettrace()):
                if trace is not None and trace is not self._trace:
                    raise RuntimeError(
                        f"the program is traced by {_name(trace)}; before CPython 3.12 a watch"
                        " needs the trace function"
                    )
            self._codes[id(code)] = code
            threading.settrace(self._trace)
            sys.settrace(self._trace)
            frame: types.FrameType | None = sys._getframe()
            while frame is not None:
                if frame.f_code is code:
                    frame.f_trace = self._trace_line
                frame = frame.f_back

        def resume(self, code: types.CodeType) -> None:
            pass

        def end(self, code: types.CodeType) -> None:
            self._codes.pop(id(code), None)
            if not self._codes:
                # Another thread ends its tracing with its next call.
                if threading.gettrace() is self._trace:
                    threading.settrace(None)
                self._end_thread()

        def _end_thread(self) -> None:
            if sys.gettrace() is self._trace:
                sys.settrace(None)

        def _trace_call(self, frame: types.FrameType, event: str, argument: object) -> Any:
            if not self._codes:
                self._end_thread()
            return self._trace_line if id(frame.f_code) in self._codes else None

        def _trace_line(self, frame: types.FrameType, event: str, argument: object) -> Any:
            if id(frame.f_code) not in self._codes:
                return None
            if event == "line":
                self._on_line(frame.f_code, frame.f_lineno, frame)
            return self._trace_line

    def _name(trace: object) -> str:
        if type(trace) is types.MethodType:
            trace = trace.__func__
        if type(trace) is types.FunctionType:
            return f"{trace.__qualname__} ({trace.__code__.co_filename})"
        return type(trace).__name__
