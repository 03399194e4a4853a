"""Topics by their ids, which are 22 characters in text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kcli.errors import UsageError
from kcli.protocol.uuids import uuid_from_text

if TYPE_CHECKING:
    from kcli.client.client import Client

TOPIC_ID = re.compile(r"[\w-]{22}(==)?", re.ASCII)


def parse_topic_id(text: str) -> bytes:
    """Return the id that a user typed; raise `UsageError` if it is none."""
    if not TOPIC_ID.fullmatch(text):
        raise UsageError(
            f"`--topic-id` wants a topic's id: {text}",
            hint="22 letters, digits, - and _, as `kcli topics describe TOPIC` shows it",
        )
    return uuid_from_text(text.removesuffix("=="))


async def topics_with_id(client: Client, topic_id: bytes) -> list[str]:
    """Return the names of the topics with this id: one or none."""
    from kcli.client import admin

    return [listing.name for listing in await admin.list_topics(client) if listing.topic_id == topic_id]
