"""What a listener with TLS shows to anybody: versions, cipher suites, its chain of certificates."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.network.bootstrap import Unreachable
from kcli.client.network.tls_failures import NO_CERTIFICATE, NO_VERSION, no_tls
from kcli.errors import KcliError

if TYPE_CHECKING:
    import ssl

    from kcli.client.network.metadata import Node

VERSIONS = ("TLSv1.2", "TLSv1.3")


class ShownTls(NamedTuple):
    """A listener as it shows itself.

    `suites` has the cipher suite by version; "" if the handshake ended for lack of a certificate. `chain` is
    DER, the listener's own certificate first.
    """

    suites: dict[str, str]
    chain: tuple[bytes, ...]


def inspect_tls(node: Node, context: ssl.SSLContext, timeout_seconds: float) -> ShownTls:
    """Connect once per version of TLS, without checking certificates.

    `context` may hold a certificate to show. Raises `KcliError` if nobody answers with TLS.
    """
    import ssl

    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    suites: dict[str, str] = {}
    chain: tuple[bytes, ...] = ()
    for name in VERSIONS:
        # The lower bound must never be above the upper one.
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.maximum_version = _number(name)
        context.minimum_version = _number(name)
        try:
            with _connected(node, context, timeout_seconds) as connection:
                cipher = connection.cipher()
                suites[name] = cipher[0] if cipher else ""
                chain = _chain(connection)
        except ssl.SSLError as error:
            if error.reason in NO_CERTIFICATE:
                suites[name] = ""
            elif error.reason not in NO_VERSION:
                raise no_tls(node.address) from error
        except TimeoutError as error:
            raise Unreachable(f"{node.address} did not answer within {timeout_seconds:g} s") from error
        except OSError as error:
            raise no_tls(node.address) from error
    if not suites:
        raise KcliError(f"{node.address} offers neither {' nor '.join(VERSIONS)}")
    return ShownTls(suites, chain)


def trust_error(node: Node, context: ssl.SSLContext, timeout_seconds: float) -> str | None:
    """Return why a client with this context refuses the listener, None if it does not.

    Raises `KcliError` if nobody answers with TLS.
    """
    import ssl

    try:
        with _connected(node, context, timeout_seconds):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return str(error.reason)
    except OSError as error:
        raise no_tls(node.address) from error


def _connected(node: Node, context: ssl.SSLContext, timeout_seconds: float) -> ssl.SSLSocket:
    try:
        plain = socket.create_connection((node.host, node.port), timeout_seconds)
    except socket.gaierror as error:
        raise Unreachable(f"unknown host: {node.host}") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Unreachable(f"cannot connect to {node.address}: {reason}") from error
    try:
        return context.wrap_socket(plain, server_hostname=node.host)
    except BaseException:
        plain.close()
        raise


def _chain(connection: ssl.SSLSocket) -> tuple[bytes, ...]:
    """Return what the listener has sent; before Python 3.13 only an inner object tells it."""
    shown = getattr(connection, "get_unverified_chain", None)
    if shown is not None:
        return tuple(shown())
    import _ssl

    inner = connection._sslobj  # type: ignore[attr-defined]  # noqa: SLF001
    return tuple(each.public_bytes(_ssl.ENCODING_DER) for each in inner.get_unverified_chain() or ())


def _number(version: str) -> ssl.TLSVersion:
    import ssl

    return {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}[version]
