"""TLS around a stream to a broker, with an error that says what is wrong when the handshake fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    import ssl

    from kcli.client.network.metadata import Node


async def secured(stream: trio.abc.Stream, node: Node, context: ssl.SSLContext) -> trio.abc.Stream:
    """Return a stream that encrypts, after the handshake; raise `trio.BrokenResourceError` if it fails."""
    # A frame has its length: an end without TLS's own farewell cuts nothing off unseen.
    tls = trio.SSLStream(stream, context, server_hostname=node.host, https_compatible=True)
    try:
        await tls.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return tls
