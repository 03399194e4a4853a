"""A node whose clients log in, and clients that do."""

from __future__ import annotations

import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.security.jaas import PLAIN_MODULE
from tests.broker.single_node import Node, connected, running_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from tests.broker.single_node import Client

ALICE = b"\0alice\0secret"
"""The token of PLAIN for the user who may log in."""
WRONG = b"\0alice\0wrong"
REFUSED = "login by PLAIN failed: invalid credentials"
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"

LOGINS = {
    "listeners": "SASL_PLAINTEXT://localhost:0",
    "sasl.enabled.mechanisms": "PLAIN",
    JAAS: f'{PLAIN_MODULE} required user_alice="secret" user_bob="hidden";',
}


@asynccontextmanager
async def login_node(
    directory: Path, properties: Mapping[str, str] | None = None, **settings: str
) -> AsyncIterator[Node]:
    """Run a node with one listener with SASL; in names of settings `_` stands for a point."""
    given = {name.replace("_", "."): text for name, text in settings.items()}
    async with running_node(directory, {**LOGINS, **given, **(properties or {})}) as node:
        yield node


@asynccontextmanager
async def logged_in(node: Node, token: bytes = ALICE) -> AsyncIterator[Client]:
    """Connect and log in by PLAIN."""
    async with connected(node) as client:
        assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
        assert (await log_in(client, token)).error_code == 0
        yield client


async def log_in(client: Client, token: bytes = ALICE, *, version: int = 2) -> Any:
    """Log in by PLAIN; return the response to the token."""
    await shake_hands(client)
    return await client.ask(SaslAuthenticateRequest(auth_bytes=token), version)


async def shake_hands(client: Client, mechanism: str = "PLAIN", version: int = 1) -> None:
    response = await client.ask(SaslHandshakeRequest(mechanism=mechanism), version)
    assert (response.error_code, response.mechanisms) == (0, ["PLAIN"])


async def send_raw(client: Client, token: bytes) -> None:
    """Send a token without a header."""
    await client.stream.send_all(struct.pack(">i", len(token)) + token)
