"""The page of a profile: that of `marey analyze`, as a file or on a local port."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from marey import _engine

from .data import check_events

HOST = "127.0.0.1"
"""The address of the page: this machine alone."""


def write_page(path: str, output: str | None) -> int:
    """Writes the page of a run to a file, or to standard output.

    Returns:
        The exit code of `marey analyze`, which has printed why there is no page.

    Raises:
        ValueError: The file was saved as JSON and has no events.
    """
    check_events(path)
    target = [] if output is None else ["-o", output]
    return _engine.cli_main(["marey", "analyze", path, "-f", "html", *target])


def serve(path: str, port: int) -> int:
    """Shows the page of a run at a port of this machine until Ctrl-C; returns the exit code.

    Raises:
        OSError: The port is in use.
        ValueError: The file was saved as JSON and has no events.
    """
    with tempfile.TemporaryDirectory(prefix="marey-") as folder:
        file = os.path.join(folder, "page.html")
        exit_code = write_page(path, file)
        if exit_code != 0:
            return exit_code
        with open(file, "rb") as page:
            content = page.read()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the engine has replaced it
    with _server(content, port) as server:
        print(f"{path} is at http://localhost:{port} until Ctrl-C", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def _server(content: bytes, port: int) -> ThreadingHTTPServer:
    # A page of another site that resolves its name to this machine has another host.
    hosts = {f"{name}:{port}" for name in ("localhost", HOST)}

    class Handler(BaseHTTPRequestHandler):
        """Answers each request for ``/`` with the page."""

        def do_GET(self) -> None:
            if self.headers.get("Host") not in hosts:
                self.send_error(HTTPStatus.FORBIDDEN)
            elif self.path != "/":
                self.send_error(HTTPStatus.NOT_FOUND)
            else:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *values: object) -> None:
            """Logs nothing."""

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise OSError(
            f"port {port} cannot be used: {error.strerror}; choose another one with --port"
        ) from None
