"""Principal: who a connection has proved to be (Kafka class `KafkaPrincipal`)."""

from __future__ import annotations

from typing import NamedTuple

USER_TYPE = "User"


class Principal(NamedTuple):
    """The user that a connection has proved to be, and whether by a delegation token."""

    type: str
    name: str
    is_token: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")
"""The principal of a connection that proves nothing."""
