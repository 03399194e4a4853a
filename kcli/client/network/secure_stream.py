"""TLS around a stream to a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kcli.client.network.connection import Disconnected

if TYPE_CHECKING:
    import ssl

    from kcli.client.network.metadata import Node


class TlsBroken(Disconnected):
    """A connection ended before TLS was agreed on; the cause is OpenSSL's error, if it has one."""


async def secured(
    stream: trio.abc.Stream, node: Node, context: ssl.SSLContext
) -> trio.SSLStream[trio.abc.Stream]:
    """Return a stream that encrypts, after the handshake; close `stream` and raise `TlsBroken` without it."""
    # A frame has its length: an end without TLS's own farewell cuts nothing off unseen.
    tls = trio.SSLStream(stream, context, server_hostname=node.host, https_compatible=True)
    try:
        await tls.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(stream)
        raise TlsBroken(
            f"{node.address} closed the connection during the TLS handshake",
            hint="is it a PLAINTEXT listener? then set `security.protocol` to PLAINTEXT or SASL_PLAINTEXT",
        ) from error
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return tls
