"""The options of `marey run`: what its arguments and the project's settings mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, NoReturn

from marey import _config
from marey._names import ENV_RING_RECORDS, ENV_RING_SECONDS
from marey._recording import Options

USAGE_HINT = "see marey run --help"


class Target(NamedTuple):
    """A program and its arguments; `argv[0]` is the script's path, the module or the command."""

    kind: Literal["script", "module", "command"]
    argv: list[str]

    def default_name(self) -> str:
        """Returns the default name of the profile."""
        if self.kind == "module":
            return self.argv[0]
        return os.path.splitext(os.path.basename(os.path.abspath(self.argv[0])))[0]


class Arguments:
    """The arguments of `marey run`, with their defaults."""

    name: str | None = None
    output: str | None = None
    backend: str | None = None
    context: Literal["shadow", "python"] = "shadow"
    data: Literal["tree", "trace", "ring"] | None = None
    ring_records: int | None = None
    ring_seconds: float | None = None
    hook: str | None = None
    instrument: str | None = None
    mode: str | None = None
    operators: bool = False
    performance_events: list[str] | None = None
    shapes: Literal["sampled", "all", "off"] = "sampled"
    window: str | None = None
    keep: str | None = None
    alert: list[str] | None = None
    overhead: bool = False
    overhead_target: str | None = None
    memory: bool = False
    profile: bool = False
    profile_output: str | None = None
    torch: bool = True
    children: bool = True
    module: list[str] | None = None
    target: Sequence[str] = ()


def parse(arguments: list[str]) -> tuple[Target, Options, str | None]:
    """Returns the target, the options and the instrument that arguments of `marey run` mean.

    Prints what is wrong and exits with 2 otherwise.
    """
    parsed = _arguments(arguments)
    if parsed.profile_output is not None and not parsed.profile:
        _usage_error("--profile-output needs --profile")
    if parsed.profile:
        _set_profile_defaults(parsed)
    for switch in ("operators", "memory", "overhead"):
        if getattr(parsed, switch) and not parsed.torch:
            _usage_error(f"--{switch} needs the hooks that --no-torch leaves out")
    if parsed.overhead_target and not parsed.torch:
        _usage_error("--overhead-target needs the hooks that --no-torch leaves out")
    _check_window(parsed)
    assert parsed.data is not None
    _set_ring_limits(parsed)
    if parsed.module is not None:
        target = Target("module", [*parsed.module, *parsed.target])
    else:
        target = _target(arguments, list(parsed.target))
    if not target.argv or target.argv[0] == "-":
        _usage_error("no program to run")
    for switch in ("instrument", "profile"):
        if getattr(parsed, switch) and target.kind == "command":
            _usage_error(f"--{switch} takes a Python script or module, not a command")
    name = parsed.name or target.default_name()
    profile = _profile_path(parsed, name)
    output = parsed.output if profile is None else f"{profile}.marey"
    path, file_format = _output_path(output, name, parsed.data)
    found: dict[str, Any] = {"path": path, "format": file_format, "profile": profile}
    as_given = {name: getattr(parsed, name) for name in Options._fields if name not in found}
    return target, Options(**found, **as_given), parsed.instrument


def _arguments(arguments: list[str]) -> Arguments:
    """Parses arguments; those of most programs, without options of marey, by themselves."""
    has_options = not arguments or (arguments[0].startswith("-") and arguments[0] != "-m")
    if has_options or _config.nearest(os.getcwd()) is not None:
        from marey import _run_parser  # imports modules that other programs need not have

        return _run_parser.parse(arguments)
    parsed = Arguments()
    if arguments[0] == "-m":
        parsed.module = arguments[1:]
    else:
        parsed.target = arguments
    return parsed


def _set_profile_defaults(parsed: Arguments) -> None:
    """Traces with memory, as a training profile needs it."""
    if parsed.data == "tree":
        _usage_error("--profile needs a trace, not --data tree")
    if parsed.output is not None:
        _usage_error("--profile writes --profile-output instead of --output")
    parsed.data = "trace"
    parsed.memory = parsed.memory or parsed.torch


def _profile_path(parsed: Arguments, name: str) -> str | None:
    """Returns the absolute path of the training profile."""
    if not parsed.profile:
        return None
    default = os.path.join("runs", name, "profile.pt")
    return os.path.abspath(parsed.profile_output or default)


def _set_ring_limits(parsed: Arguments) -> None:
    """Sets the limits of a ring in the environment, where child processes read them too."""
    for option, variable in (
        ("ring_records", ENV_RING_RECORDS),
        ("ring_seconds", ENV_RING_SECONDS),
    ):
        value = getattr(parsed, option)
        if value is None:
            continue
        if parsed.data != "ring":
            _usage_error(f"--{option.replace('_', '-')} needs --data ring")
        os.environ[variable] = str(value)


def _check_window(parsed: Arguments) -> None:
    """Checks `--window` and what depends on it, and sets the default of `--data`."""
    is_of_time = parsed.window is not None and _is_duration(parsed.window)
    if parsed.data is None:
        parsed.data = "tree" if parsed.window is None or is_of_time else "trace"
    if is_of_time:
        _check_time_windows(parsed)
        return
    for option in ("keep", "alert"):
        if getattr(parsed, option) is not None:
            _usage_error(f"--{option} needs windows of time, such as --window 5m")
    if parsed.window is not None:
        _check_step_windows(parsed)


def _is_duration(window: str) -> bool:
    from marey import _checks  # a module that most programs never use

    try:
        return _checks.duration_seconds(window) is not None
    except ValueError as error:
        _usage_error(f"--window: {error}")


def _check_time_windows(parsed: Arguments) -> None:
    from marey.windows import retention, run_windows

    if parsed.data != "tree":
        _usage_error(f"--window {parsed.window} writes profiles, not --data {parsed.data}")
    if parsed.mode is not None:
        _usage_error(f"--window {parsed.window} sets the mode; leave --mode out")
    try:
        retention.parse(parsed.keep)
    except ValueError as error:
        _usage_error(f"--keep: {error}")
    try:
        run_windows.parse_conditions(parsed.alert or [])
    except ValueError as error:
        _usage_error(f"--alert: {error}")


def _check_step_windows(parsed: Arguments) -> None:
    from marey import _torch_window_plans

    assert parsed.window is not None
    if not parsed.torch:
        _usage_error("--window needs the hooks that --no-torch leaves out")
    if parsed.data == "tree":
        _usage_error("--window needs a trace, not --data tree")
    try:
        _torch_window_plans.parse(parsed.window)
    except ValueError as error:
        _usage_error(f"--window: {error}, or a time such as 5m")


def _target(arguments: list[str], target_argv: list[str]) -> Target:
    """Returns the target at the end of the arguments.

    Whether argparse removes a leading `--` depends on the Python version, so both are handled.
    """
    before = arguments[: len(arguments) - len(target_argv)]
    if target_argv[:1] == ["--"]:
        return Target("command", target_argv[1:])
    if before[-1:] == ["--"]:
        return Target("command", target_argv)
    if target_argv[:1] == ["pytest"]:
        return Target("module", target_argv)
    return Target("script", target_argv)


def _output_path(output: str | None, name: str, data: str) -> tuple[str, str]:
    """Returns the absolute path without its suffix, and the format of the suffix."""
    if output is None:
        path = name
    elif output.endswith(os.sep) or (os.path.isdir(output) and not output.endswith(".marey")):
        path = os.path.join(output, name)
    else:
        path = output
    stem, suffix = os.path.splitext(os.path.join(os.getcwd(), path))
    formats = _FORMATS[data]
    if suffix[1:] in formats:
        return stem, suffix[1:]
    if any(suffix[1:] in others for others in _FORMATS.values()):
        _usage_error(f"--data {data} cannot write {suffix}; its formats are {_suffixes(formats)}")
    return stem + suffix, formats[0]


def _suffixes(formats: tuple[str, ...]) -> str:
    return ", ".join(f".{name}" for name in formats)


_FORMATS = {
    "tree": ("hatchet", "hatchet_msgpack"),
    "trace": ("chrome_trace", "marey"),
    "ring": ("marey",),
}
"""Suffixes of the output files by `--data`, the default first."""


def _usage_error(message: str) -> NoReturn:
    fail(message, USAGE_HINT)


def fail(message: str, hint: str | None = None, exit_code: int = 2) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    sys.exit(exit_code)
