"""Which names a topic may have (class `Topic`)."""

from __future__ import annotations

import re

from kcli.protocol.error_codes import ErrorCode, KafkaError

MAX_NAME_LENGTH = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise `KafkaError` INVALID_TOPIC_EXCEPTION unless a topic may have this name."""
    wrong = None
    if not name:
        wrong = "it is empty"
    elif name in {".", ".."}:
        wrong = "`.` and `..` are not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        wrong = f"it is longer than {MAX_NAME_LENGTH} characters"
    elif not _LEGAL.fullmatch(name):
        wrong = "only ASCII letters, digits, `.`, `_` and `-` are allowed"
    if wrong is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"invalid topic name `{name}`: {wrong}")


def collision_key(name: str) -> str:
    """Return what two names share that differ only in `.` and `_`: metrics cannot tell those apart."""
    return name.replace(".", "_")
