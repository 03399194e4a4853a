"""The server's side of a SASL login: tokens in, challenges out. Knows no connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kcli.security.principal import Principal


class SaslFailure(KcliError):
    """A login that failed. The message is for the client: it never tells which part was wrong."""


class Authenticated(NamedTuple):
    """What a finished login proves, until `expires_ms` on the wall clock (0: for good)."""

    principal: Principal
    expires_ms: int = 0


class SaslExchange(Protocol):
    """One login. `outcome` is None until the client has proved who it is."""

    outcome: Authenticated | None

    def step(self, token: bytes) -> bytes | Awaitable[bytes]:
        """Return the next challenge, which may need slow work; raise `SaslFailure`.

        The last challenge may be empty, and is sent all the same.
        """
        ...


class SaslMechanism(Protocol):
    """One way to log in, by its name in SaslHandshake."""

    name: str

    def begin(self) -> SaslExchange:
        """Return a new login."""
        ...


def invalid_credentials(mechanism: str) -> SaslFailure:
    """Return the failure of a login with a wrong name, password or token."""
    return SaslFailure(f"Authentication failed during {mechanism} login: invalid credentials")
