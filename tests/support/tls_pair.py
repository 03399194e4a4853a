"""Two ends of a TLS connection over memory, and certificates for them."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    import trustme


class Pair(NamedTuple):
    """Both ends after a handshake."""

    client: ssl.SSLObject
    server: ssl.SSLObject


def handshake(
    server_context: ssl.SSLContext, client_context: ssl.SSLContext, name: str = "localhost"
) -> Pair:
    """Return both ends; raise `ssl.SSLError` of the end that refuses first."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for _turn in range(8):
        for end in tuple(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue
    assert waiting == []
    # With TLS 1.3 the server's word on the client's certificate comes with the first read.
    for end in (server, client):
        try:
            end.read(1)
        except ssl.SSLWantReadError:
            continue
    return Pair(client, server)


def write_pem(leaf: trustme.LeafCert, path: Path) -> Path:
    """Write a key and its chain to one file that only its owner reads; return its path."""
    path.write_bytes(leaf.private_key_and_cert_chain_pem.bytes())
    path.chmod(0o600)
    return path
