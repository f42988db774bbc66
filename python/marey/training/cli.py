"""The commands `marey profile analyze`, `view`, `compare` and `export`.

Their help is in the engine, like that of all commands.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NoReturn

from marey import _engine
from marey._saving import save_text

from .analyzer import ProfileAnalyzer
from .data import ProfileData, check_events
from .listen import RefusedAddressError, parse_port, resolve
from .page import serve, write_page
from .report import comparison

EXPORT_FORMATS = ("chrome-trace", "csv", "tensorboard", "json")


def main(arguments: list[str]) -> int:
    """Runs the command and returns the exit code."""
    if not arguments or not {"-h", "--help"}.isdisjoint(arguments):
        return _engine.cli_main(["marey", "profile", "--help"])
    options = parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    warnings.showwarning = _show_warning
    try:
        return command(options)
    except OSError as error:
        named = None if error.filename is None else f"{error.filename}: {error.strerror}"
        print(f"error: {named or error}", file=sys.stderr)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        if isinstance(error, RefusedAddressError):
            print(f"hint: {error.hint}", file=sys.stderr)
    return 2


def parser() -> argparse.ArgumentParser:
    """Returns the parser of `marey profile`."""
    parser = _Parser(prog="marey profile", allow_abbrev=False, add_help=False)
    verbs = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def add(name: str, command: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        verb = verbs.add_parser(name, allow_abbrev=False, add_help=False)
        verb.set_defaults(command=command)
        return verb

    analyze = add("analyze", _analyze)
    analyze.add_argument("profile")
    analyze.add_argument("-o", "--output")
    analyze.add_argument("--format", choices=("txt", "html", "json"), default="txt")
    view = add("view", _view)
    view.add_argument("profile")
    view.add_argument("--listen", nargs="?", const="")
    view.add_argument("--port", type=_port)
    view.add_argument("--tls-cert")
    view.add_argument("--tls-key")
    view.add_argument("--insecure", action="store_true")
    compare = add("compare", _compare)
    compare.add_argument("profile1")
    compare.add_argument("profile2")
    compare.add_argument("-o", "--output")
    export = add("export", _export)
    export.add_argument("profile")
    export.add_argument("--format", choices=EXPORT_FORMATS, required=True)
    export.add_argument("-o", "--output", required=True)
    return parser


def _analyze(options: argparse.Namespace) -> int:
    if options.format == "html":
        return write_page(options.profile, options.output)
    analyzer = ProfileAnalyzer(options.profile)
    if options.format == "txt":
        _print(analyzer.get_efficiency_report(), options.output)
        return 0
    bottlenecks = [
        {**asdict(bottleneck), "type": bottleneck.type.value}
        for bottleneck in analyzer.identify_bottlenecks()
    ]
    document: dict[str, Any] = {
        "summary": analyzer.get_summary(),
        "operations": analyzer.get_top_operations(),
        "bottlenecks": bottlenecks,
    }
    _print(json.dumps(document, indent=2), options.output)
    return 0


def _view(options: argparse.Namespace) -> int:
    listen = resolve(
        options.listen,
        options.port,
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
        is_insecure=options.insecure,
    )
    return serve(options.profile, listen)


def _compare(options: argparse.Namespace) -> int:
    first, second = (ProfileAnalyzer(path) for path in (options.profile1, options.profile2))
    _print(comparison(first.get_summary(), second.get_summary()), options.output)
    return 0


def _export(options: argparse.Namespace) -> int:
    if options.format == "json":
        ProfileData.load(options.profile).write(options.output)
        return 0
    check_events(options.profile)
    output = ["-f", options.format, "-o", options.output, "--force"]
    return _engine.cli_main(["marey", "export", options.profile, *output])


def _show_warning(message: Warning | str, *_: object, **_named: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _print(text: str, output: str | None) -> None:
    if output is None:
        print(text)
    else:
        save_text(output, text + "\n")


def _port(text: str) -> int:
    try:
        return parse_port(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"error: {message}", file=sys.stderr)
        print("hint: see marey profile --help", file=sys.stderr)
        sys.exit(2)
