"""The address at which `marey profile view` listens, and who may reach it."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass

DEFAULT_ADDRESS = "127.0.0.1"
DEFAULT_PORT = 8051

_DEFAULT_PORTS = {"http": 80, "https": 443}


class RefusedAddressError(ValueError):
    """An address that other machines reach, without a protection for what is sent."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} can be reached from other machines, by unencrypted requests")
        self.hint = (
            "give --tls-cert FILE and --tls-key FILE, or --insecure in a network that you trust;"
            " without --listen, `ssh -L` shows the page on another machine"
        )


@dataclass(frozen=True)
class Listen:
    """A resolved address, and how requests to it are protected."""

    name: str
    """The address as it was given."""
    address: str
    """The address as numbers."""
    family: socket.AddressFamily
    """`AF_INET` or `AF_INET6`."""
    port: int
    """The TCP port, from 1 to 65535."""
    tls: ssl.SSLContext | None
    """The certificate of this machine; None for plain HTTP."""

    @property
    def scheme(self) -> str:
        """The scheme of the page's address, ``http`` or ``https``."""
        return "http" if self.tls is None else "https"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def url(self) -> str:
        """The address of the page, without its token."""
        if self.address == DEFAULT_ADDRESS:
            name = "localhost"
        elif ipaddress.ip_address(self.address).is_unspecified:
            name = socket.gethostname()
        else:
            name = self.name
        return f"{self.scheme}://{_host(name)}:{self.port}/"

    def hosts(self, local_address: str) -> set[str]:
        """Returns the values of ``Host`` by which a request names this machine.

        Args:
            local_address: The address at which the connection has arrived.
        """
        own_name = "localhost" if self.is_loopback else socket.gethostname()
        names = {_host(name) for name in (self.name, self.address, local_address, own_name)}
        hosts = {f"{name}:{self.port}" for name in names}
        return hosts | names if self.port == _DEFAULT_PORTS[self.scheme] else hosts


def resolve(
    listen: str | None = None,
    port: int | None = None,
    *,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    is_insecure: bool = False,
) -> Listen:
    """Resolves the options of the command.

    Args:
        listen: ``[ADDRESS][:PORT]``; an address of IPv6 with a port is in brackets.
        port: The TCP port, if `listen` has none.
        tls_cert: File of a certificate and its chain (PEM).
        tls_key: File of the certificate's key (PEM).
        is_insecure: Whether an address that other machines reach may be used without TLS.

    Raises:
        OSError: The address cannot be resolved.
        RefusedAddressError: Other machines reach the address, and `is_insecure` is not set.
        ValueError: The options are incomplete, or contradict each other.
    """
    name, listen_port = _parse(listen or "")
    if None not in (port, listen_port):
        raise ValueError("--listen and --port both name a port: leave one out")
    port = listen_port or port or DEFAULT_PORT
    tls = _tls(tls_cert, tls_key)
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(f"--listen {name}: {error.strerror}") from None
    family, _, _, _, place = found[0]
    resolved = Listen(name, str(place[0]), family, port, tls)
    if not resolved.is_loopback and tls is None and not is_insecure:
        raise RefusedAddressError(name)
    return resolved


def parse_port(text: str) -> int:
    """Returns the TCP port that a text means.

    Raises:
        ValueError: The text is no number from 1 to 65535.
    """
    port = int(text) if text.isdecimal() else 0
    if not 0 < port < 1 << 16:
        raise ValueError(f"port {text!r} must be a number from 1 to 65535")
    return port


def _parse(text: str) -> tuple[str, int | None]:
    """Splits ``[ADDRESS][:PORT]``."""
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        if rest and not rest.startswith(":"):
            raise ValueError(f"--listen {text!r} is not [ADDRESS]:PORT")
        port = rest[1:]
    elif text.count(":") > 1:
        name, port = text, ""
    else:
        name, _, port = text.partition(":")
    return name or DEFAULT_ADDRESS, parse_port(port) if port else None


def _tls(cert: str | None, key: str | None) -> ssl.SSLContext | None:
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ValueError("--tls-cert and --tls-key are given together")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key)
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise ValueError(f"--tls-cert {cert} and --tls-key {key}: {reason}") from None
    return context


def _host(name: str) -> str:
    """Returns a name or address as the header ``Host`` has it."""
    return f"[{name}]" if ":" in name else name
