"""PLAIN on the server (RFC 4616, Kafka class `PlainSaslServer`): name and password in one token."""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING

from kcli.security.principal import USER_TYPE, Principal
from kcli.security.sasl import Authenticated, SaslFailure, invalid_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.security.secret import Secret

NAME = "PLAIN"
_PARTS = 3


class PlainMechanism:
    """Logs in the users of `passwords`."""

    name = NAME

    def __init__(self, passwords: Mapping[str, Secret]) -> None:
        self._passwords = passwords
        # An unknown user is compared with this, so that the time tells nothing.
        self._nobody = os.urandom(32).hex()

    def begin(self) -> PlainExchange:
        """Return a new login."""
        return PlainExchange(self)

    def knows(self, user: str, password: str) -> bool:
        """Return whether this is the user's password, in a time that does not tell how wrong it is."""
        secret = self._passwords.get(user)
        expected = self._nobody if secret is None else secret.reveal()
        return hmac.compare_digest(expected.encode(), password.encode()) and secret is not None


class PlainExchange:
    """One login: its one token is the authorization id, the name and the password, with NULs between."""

    def __init__(self, mechanism: PlainMechanism) -> None:
        self._mechanism = mechanism
        self.outcome: Authenticated | None = None

    def step(self, token: bytes) -> bytes:
        """Check the token; the challenge after it is empty. Raises `SaslFailure`."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslFailure("the token is not UTF-8") from None
        if len(parts) != _PARTS:
            raise SaslFailure(f"a PLAIN token has {_PARTS} parts, not {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise SaslFailure("the user name is empty")
        if not password:
            raise SaslFailure("the password is empty")
        if not self._mechanism.knows(user, password):
            raise invalid_credentials(NAME)
        if authorization_id not in ("", user):
            raise SaslFailure("the authorization id is not the user name")
        self.outcome = Authenticated(Principal(USER_TYPE, user))
        return b""
