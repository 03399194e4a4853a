"""What the mechanisms of a SASL login are for the two sides: tokens in, tokens out. Knows no connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kcli.security.principal import Principal


class SaslFailure(KcliError):
    """A login that failed. The message is for the client: it never tells which part was wrong."""


class SaslError(KcliError):
    """The client ends a login: the server's part of it is wrong."""


class SaslClient(Protocol):
    """One login on the client. `step(None)` returns the first token.

    `is_complete` says that no challenge needs an answer any more; an empty token is then not sent.
    """

    mechanism: str

    def step(self, challenge: bytes | None) -> bytes:
        """Return the next token; raise `SaslError` for a challenge that does not prove what it must."""
        ...

    @property
    def is_complete(self) -> bool: ...


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
    return SaslFailure(f"login by {mechanism} failed: invalid credentials")
