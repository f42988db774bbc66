"""The page of a profile: that of `marey analyze`, as a file or on a local port."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import signal
import tempfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from marey import _engine

from .data import check_events

HOST = "127.0.0.1"
"""The address of the page: this machine alone."""
TOKEN_BYTES = 32


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

    The printed address has a token, without which other users of the machine do not see the page.

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
    token = secrets.token_hex(TOKEN_BYTES)
    with _server(content, port, token) as server:
        print(f"{path} is at http://localhost:{port}/?token={token} until Ctrl-C", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def _server(content: bytes, port: int, token: str) -> ThreadingHTTPServer:
    # A page of another site that resolves its name to this machine has another host.
    hosts = {f"{name}:{port}" for name in ("localhost", HOST)}
    origins = {None, *(f"http://{host}" for host in hosts)}

    class Handler(BaseHTTPRequestHandler):
        """Answers each request for ``/`` that has the token with the page."""

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            given = parse_qs(address.query).get("token", [""])[0]
            if self.headers.get("Host") not in hosts or self.headers.get("Origin") not in origins:
                self.send_error(HTTPStatus.FORBIDDEN)
            elif not hmac.compare_digest(given.encode(), token.encode()):
                self.send_error(HTTPStatus.FORBIDDEN, "the address lacks the token")
            elif address.path != "/":
                self.send_error(HTTPStatus.NOT_FOUND)
            else:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                # Links in the page do not carry the token away.
                self.send_header("Referrer-Policy", "no-referrer")
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
