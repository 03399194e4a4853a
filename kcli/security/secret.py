"""Secret: a password or key that no message, log line or traceback shows."""

from __future__ import annotations

import hmac


class Secret:
    """A text that only `reveal` tells. It shows as `[hidden]` and compares in constant time."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself."""
        return self._value

    def matches(self, other: Secret) -> bool:
        """Return whether both are the same text, in a time that does not tell how they differ."""
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return self.matches(other)

    def __hash__(self) -> int:
        return hash(self._value)
