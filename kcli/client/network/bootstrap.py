"""Bootstrap addresses, and opening a stream to an address with a precise error."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, TypeAlias

import trio

from kcli.client.network.metadata import Node
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kcli.client.config import ClientConfig

    OpenStream: TypeAlias = Callable[[Node, ClientConfig], Awaitable[trio.abc.Stream]]

DEFAULT_PORT = 9092

REFUSED = os.strerror(errno.ECONNREFUSED).lower()
"""The reason if no process listens on a port."""


class Unreachable(KcliError):
    """No connection to an address: refused, unknown host, no route, or silent."""


class AuthenticationFailed(KcliError):
    """Client and broker do not trust each other; another try fails as well."""


class LoginFailed(AuthenticationFailed):
    """A SASL login failed (Kafka class `SaslAuthenticationException`)."""


class TlsFailed(AuthenticationFailed):
    """A TLS handshake failed (Kafka class `SslAuthenticationException`)."""


class NotKafka(KcliError):
    """The listener does not speak the Kafka protocol, or not in plaintext."""


class WrongProtocol(NotKafka):
    """The listener has another security protocol than the client."""


class UnknownHost(Unreachable):
    """The host name does not resolve; a retry does not help soon."""


def parse_bootstrap(text: str) -> list[Node]:
    """Return the addresses of `host:port,host:port` as nodes -1, -2, ...; the port defaults to 9092.

    Raises `UsageError` for anything else. An IPv6 host is in brackets.
    """
    nodes: list[Node] = []
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            continue
        host, port = _split(part)
        if "://" in part or not host or not port.isascii() or not port.isdecimal():
            raise UsageError(f"invalid bootstrap server: {part}", hint="use host:port,host:port")
        if not 1 <= int(port) <= 65535:
            raise UsageError(f"invalid port of a bootstrap server: {part}", hint="use 1 to 65535")
        nodes.append(Node(-1 - len(nodes), host, int(port)))
    if not nodes:
        raise UsageError("no bootstrap server given", hint="use host:port,host:port")
    return nodes


def _split(part: str) -> tuple[str, str]:
    if part.startswith("["):
        host, bracket, rest = part[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return "", ""
        return host, rest[1:] if rest else str(DEFAULT_PORT)
    host, colon, port = part.rpartition(":")
    if ":" in host:
        return "", ""
    return (host, port) if colon else (part, str(DEFAULT_PORT))


async def open_tcp(node: Node, config: ClientConfig) -> trio.abc.Stream:
    """Connect to a node by TCP, trying all addresses of its name; raise `Unreachable`."""
    try:
        stream = await trio.open_tcp_stream(node.host, node.port)
    except socket.gaierror as error:
        raise UnknownHost(
            f"unknown host: {node.host}", hint="check the spelling of the bootstrap server or listener"
        ) from error
    except (OSError, UnicodeError) as error:
        reason = _reason(error)
        is_here = node.host.lower() == "localhost" or node.host == "::1" or node.host.startswith("127.")
        starts = ", `kcli broker start` starts one" if is_here and reason == REFUSED else ""
        raise Unreachable(
            f"cannot connect to {node.address}: {reason}",
            hint=f"check that the broker runs and listens there{starts}",
        ) from error
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if config.send_buffer_bytes >= 0:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.send_buffer_bytes)
    if config.receive_buffer_bytes >= 0:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.receive_buffer_bytes)
    return stream


def _reason(error: BaseException) -> str:
    """Return the system's error text of the first failed try, in lower case ("connection refused")."""
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return os.strerror(error.errno).lower()
    if isinstance(error, BaseExceptionGroup):
        return _reason(error.exceptions[0])
    if error.__cause__ is not None:
        return _reason(error.__cause__)
    return str(error)


def no_answer(address: str, seconds: float) -> Unreachable:
    """Return the error of an address that was silent until the timeout."""
    return Unreachable(
        f"{address} did not answer within {seconds:g} s",
        hint="check the address, and that the port is a broker's listener",
    )


def no_broker_answers(nodes: list[Node], errors: dict[int, KcliError]) -> KcliError:
    """Return the error if none of the bootstrap addresses answers as a broker."""
    if len(nodes) == 1:
        return errors[nodes[0].node_id]
    reasons = "; ".join(errors[node.node_id].message for node in nodes if node.node_id in errors)
    return Unreachable(f"no bootstrap server answers: {reasons}", hint="check the addresses and the brokers")
