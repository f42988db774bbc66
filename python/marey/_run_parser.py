"""The parser of the arguments of `marey run`, which imports modules that few programs need."""

from __future__ import annotations

import argparse
import functools
import os
from typing import NoReturn

from marey import _config
from marey._run_options import USAGE_HINT, Arguments, fail


def parse(arguments: list[str]) -> Arguments:
    """Returns what the arguments and the project's settings say.

    Prints what is wrong and exits with 2 otherwise.
    """
    parser = _parser()
    parsed = Arguments()
    try:
        _config.set_defaults(parser, os.getcwd(), parsed)
    except _config.InvalidConfig as error:
        fail(str(error))
    return parser.parse_args(arguments, parsed)


def _overhead_target(text: str) -> str:
    from marey import _torch_overhead  # imports modules that few programs need

    try:
        _torch_overhead.parse_target(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _parser() -> argparse.ArgumentParser:
    """Returns the parser. `Arguments` has the defaults, and the engine the help."""
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
    parser.add_argument("-c", "--context", choices=("shadow", "python"))
    parser.add_argument("-d", "--data", choices=("tree", "trace", "ring"))
    parser.add_argument("--ring-records", type=_records)
    parser.add_argument("--ring-seconds", type=_seconds)
    parser.add_argument("-k", "--hook")
    parser.add_argument("-i", "--instrument", choices=("print-mem-spaces",))
    parser.add_argument("--mode")
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--performance-events", type=_names)
    parser.add_argument("--shapes", choices=("sampled", "all", "off"))
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
        fail(message, USAGE_HINT)
