"""The page of a profile: that of `marey analyze`, as a file or on a port."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import signal
import sys
import tempfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from marey import _engine

from .data import check_events
from .listen import Listen

TOKEN_BYTES = 32
REQUEST_TIMEOUT_S = 10
"""Time in seconds for each part of a request."""


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


def serve(path: str, listen: Listen) -> int:
    """Shows the page of a run at an address of this machine until Ctrl-C; returns the exit code.

    The printed address has a token, without which the page is not shown.

    Raises:
        OSError: The port is in use, or the address is not one of this machine.
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
    with _server(content, listen, token) as server:
        if not listen.is_loopback and listen.tls is None:
            text = "the page and its token are sent unencrypted to other machines"
            print(f"warning: {text}: use --tls-cert and --tls-key", file=sys.stderr, flush=True)
        print(f"{path} is at {listen.url}?token={token} until Ctrl-C", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def _server(content: bytes, listen: Listen, token: str) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        """Answers each request for ``/`` that has the token with the page."""

        timeout = REQUEST_TIMEOUT_S

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            given = parse_qs(address.query).get("token", [""])[0]
            # A page of another site that resolves its name to this machine has another host.
            hosts = listen.hosts(self.connection.getsockname()[0])
            origins = {None, *(f"{listen.scheme}://{host}" for host in hosts)}
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

    class Server(ThreadingHTTPServer):
        """Listens at the address."""

        address_family = listen.family

        def handle_error(self, request: object, client_address: object) -> None:
            """Logs nothing: a client that speaks no TLS or goes away has no answer."""

    try:
        server = Server((listen.address, listen.port), Handler)
    except OSError as error:
        place = f"port {listen.port}" if listen.is_loopback else f"{listen.name}:{listen.port}"
        mend = "choose another one with --port or --listen"
        raise OSError(f"{place} cannot be used: {error.strerror}; {mend}") from None
    if listen.tls is not None:
        # The handshake is made by the first read, which is on the thread of the client.
        server.socket = listen.tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    return server
