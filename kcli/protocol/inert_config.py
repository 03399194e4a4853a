"""What a kcli broker says of a configuration that Kafka knows and kcli does not act on: an inert one.

The protocol only has a code for names and values that are wrong, so clients know this refusal by its words.
"""

from __future__ import annotations

from kcli.protocol.error_codes import ErrorCode, KafkaError

_NO_EFFECT = " has no effect in kcli"


class InertConfig(KafkaError):
    """The refusal of an inert configuration: no other name and no other value would do."""

    wants_hint = False

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


def no_effect(name: str) -> str:
    """Return what to say of an inert configuration."""
    return f"`{name}`{_NO_EFFECT}"


def tells_no_effect(message: str) -> bool:
    """Tell whether a broker's words are those of `no_effect`."""
    return message.endswith(_NO_EFFECT)
