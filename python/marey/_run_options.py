"""The options of `marey run`: what its arguments and the project's settings mean."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from typing import Literal, NamedTuple, NoReturn

from marey import _config
from marey._names import ENV_RING_RECORDS, ENV_RING_SECONDS
from marey._recording import Options


class Target(NamedTuple):
    """A program and its arguments; `argv[0]` is the script's path, the module or the command."""

    kind: Literal["script", "module", "command"]
    argv: list[str]

    def default_name(self) -> str:
        """Returns the default name of the profile."""
        if self.kind == "module":
            return self.argv[0]
        return os.path.splitext(os.path.basename(os.path.abspath(self.argv[0])))[0]


def parse(arguments: list[str]) -> tuple[Target, Options, str | None]:
    """Returns the target, the options and the instrument that arguments of `marey run` mean.

    Prints what is wrong and exits with 2 otherwise.
    """
    parser = _parser()
    try:
        _config.set_defaults(parser, os.getcwd())
    except _config.InvalidConfig as error:
        fail(str(error))
    parsed = parser.parse_args(arguments)
    if parsed.profile_output is not None and not parsed.profile:
        parser.error("--profile-output needs --profile")
    if parsed.profile:
        _set_profile_defaults(parser, parsed)
    for switch in ("operators", "memory", "overhead"):
        if getattr(parsed, switch) and not parsed.torch:
            parser.error(f"--{switch} needs the hooks that --no-torch leaves out")
    if parsed.overhead_target and not parsed.torch:
        parser.error("--overhead-target needs the hooks that --no-torch leaves out")
    _check_window(parser, parsed)
    _set_ring_limits(parser, parsed)
    if parsed.module is not None:
        target = Target("module", parsed.module + parsed.target)
    else:
        target = _target(arguments, parsed.target)
    if not target.argv or target.argv[0] == "-":
        parser.error("no program to run")
    for switch in ("instrument", "profile"):
        if getattr(parsed, switch) and target.kind == "command":
            parser.error(f"--{switch} takes a Python script or module, not a command")
    name = parsed.name or target.default_name()
    profile = _profile_path(parsed, name)
    output = parsed.output if profile is None else f"{profile}.marey"
    path, file_format = _output_path(parser, output, name, parsed.data)
    options = Options(
        path=path,
        format=file_format,
        context=parsed.context,
        data=parsed.data,
        backend=parsed.backend,
        mode=parsed.mode,
        hook=parsed.hook,
        torch=parsed.torch,
        operators=parsed.operators,
        performance_events=parsed.performance_events,
        shapes=parsed.shapes,
        window=parsed.window,
        overhead=parsed.overhead,
        overhead_target=parsed.overhead_target,
        memory=parsed.memory,
        children=parsed.children,
        keep=parsed.keep,
        alerts=parsed.alert,
        profile=profile,
    )
    return target, options, parsed.instrument


def _set_profile_defaults(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    """Traces with memory, as a training profile needs it."""
    if parsed.data == "tree":
        parser.error("--profile needs a trace, not --data tree")
    if parsed.output is not None:
        parser.error("--profile writes --profile-output instead of --output")
    parsed.data = "trace"
    parsed.memory = parsed.memory or parsed.torch


def _profile_path(parsed: argparse.Namespace, name: str) -> str | None:
    """Returns the absolute path of the training profile."""
    if not parsed.profile:
        return None
    default = os.path.join("runs", name, "profile.pt")
    return os.path.abspath(parsed.profile_output or default)


def _set_ring_limits(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    """Sets the limits of a ring in the environment, where child processes read them too."""
    for option, variable in (
        ("ring_records", ENV_RING_RECORDS),
        ("ring_seconds", ENV_RING_SECONDS),
    ):
        value = getattr(parsed, option)
        if value is None:
            continue
        if parsed.data != "ring":
            parser.error(f"--{option.replace('_', '-')} needs --data ring")
        os.environ[variable] = str(value)


def _check_window(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    """Checks `--window` and what depends on it, and sets the default of `--data`."""
    is_of_time = parsed.window is not None and _is_duration(parser, parsed.window)
    if parsed.data is None:
        parsed.data = "tree" if parsed.window is None or is_of_time else "trace"
    if is_of_time:
        _check_time_windows(parser, parsed)
        return
    for option in ("keep", "alert"):
        if getattr(parsed, option) is not None:
            parser.error(f"--{option} needs windows of time, such as --window 5m")
    if parsed.window is not None:
        _check_step_windows(parser, parsed)


def _is_duration(parser: argparse.ArgumentParser, window: str) -> bool:
    from marey.windows import run_windows

    try:
        return run_windows.duration_seconds(window) is not None
    except ValueError as error:
        parser.error(f"--window: {error}")


def _check_time_windows(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    from marey.windows import retention, run_windows

    if parsed.data != "tree":
        parser.error(f"--window {parsed.window} writes profiles, not --data {parsed.data}")
    if parsed.mode is not None:
        parser.error(f"--window {parsed.window} sets the mode; leave --mode out")
    try:
        retention.parse(parsed.keep)
    except ValueError as error:
        parser.error(f"--keep: {error}")
    try:
        run_windows.parse_conditions(parsed.alert or [])
    except ValueError as error:
        parser.error(f"--alert: {error}")


def _check_step_windows(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    from marey import _torch_window_plans

    if not parsed.torch:
        parser.error("--window needs the hooks that --no-torch leaves out")
    if parsed.data == "tree":
        parser.error("--window needs a trace, not --data tree")
    try:
        _torch_window_plans.parse(parsed.window)
    except ValueError as error:
        parser.error(f"--window: {error}, or a time such as 5m")


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


def _output_path(
    parser: argparse.ArgumentParser, output: str | None, name: str, data: str
) -> tuple[str, str]:
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
        parser.error(f"--data {data} cannot write {suffix}; its formats are {_suffixes(formats)}")
    return stem + suffix, formats[0]


def _suffixes(formats: tuple[str, ...]) -> str:
    return ", ".join(f".{name}" for name in formats)


_FORMATS = {
    "tree": ("hatchet", "hatchet_msgpack"),
    "trace": ("chrome_trace", "marey"),
    "ring": ("marey",),
}
"""Suffixes of the output files by `--data`, the default first."""


def _overhead_target(text: str) -> str:
    from marey import _torch_overhead  # imports modules that few programs need

    try:
        _torch_overhead.parse_target(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _parser() -> argparse.ArgumentParser:
    """Returns the parser of `marey run`, whose help is in the engine."""
    # A width, because argparse imports much to find it out; the help is never formatted here.
    formatter = functools.partial(argparse.HelpFormatter, width=80)
    parser = _Parser(
        prog="marey run", allow_abbrev=False, add_help=False, formatter_class=formatter
    )
    remainder = argparse.REMAINDER
    parser.add_argument("-h", "--help", action=_Help)
    parser.add_argument("-n", "--name")
    parser.add_argument("-o", "--output")
    parser.add_argument("-b", "--backend")
    parser.add_argument("-c", "--context", choices=("shadow", "python"), default="shadow")
    parser.add_argument("-d", "--data", choices=("tree", "trace", "ring"))
    parser.add_argument("--ring-records", type=_records)
    parser.add_argument("--ring-seconds", type=_seconds)
    parser.add_argument("-k", "--hook")
    parser.add_argument("-i", "--instrument", choices=("print-mem-spaces",))
    parser.add_argument("--mode")
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--performance-events", type=_names)
    parser.add_argument("--shapes", choices=("sampled", "all", "off"), default="sampled")
    parser.add_argument("--window")
    parser.add_argument("--keep")
    parser.add_argument("--alert", type=_names)
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--overhead-target", type=_overhead_target)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--profile-output")
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    parser.add_argument("--no-children", dest="children", action="store_false")
    parser.add_argument("-m", dest="module", nargs=remainder)
    parser.add_argument("target", nargs=remainder)
    return parser


def _records(text: str) -> int:
    try:
        records = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not 1 <= records <= 1_000_000_000:
        raise argparse.ArgumentTypeError("the number is not from 1 to 1,000,000,000")
    return records


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError("the number is not above 0 and up to 86,400")
    return seconds


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


class _Help(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0)

    def __call__(self, *_: object) -> NoReturn:
        from marey import _cli  # imports modules that a profiled program does not need

        _cli.run_engine(["marey", "run", "--help"])


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(message, "see marey run --help")


def fail(message: str, hint: str | None = None, exit_code: int = 2) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    sys.exit(exit_code)
