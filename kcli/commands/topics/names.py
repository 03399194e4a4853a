"""Names and ids of topics: hints for refused names, protection of internal topics, and topics by id.

Coordinators find groups and transactional ids by the partition count of their internal topic. The broker
creates that topic with its own settings when it is first needed, and another count later loses its state. So
creating or altering it needs `--force`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.errors import KcliError, UsageError
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.topics import INTERNAL_TOPICS
from kcli.protocol.uuids import uuid_from_text

if TYPE_CHECKING:
    from kcli.client.admin import NewTopic
    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError


GOOD_NAME = r"[a-zA-Z0-9._-]{1,249}"
NAMES_HINT = "`kcli configs describe TOPIC --all` of any topic that exists shows the names"
COLLISION_HINT = "metric names would be the same for both topics: choose another name"


async def refusal_hint(client: Client, topic: NewTopic, error: KafkaError) -> str | None:
    """Return a hint for a refused topic, None if the error, or the hint of its code, is enough.

    The error of a value that is refused names the valid ones.
    """
    from kcli.commands.configs.names import likely_name
    from kcli.commands.shared.arguments import repeat_hint

    if error.wants_hint and error.code is ErrorCode.INVALID_CONFIG:
        known = await config_names(client, topic.name)
        is_unknown = bool(known) and any(name not in known for name in topic.configs)
        hint = repeat_hint(topic.configs, "--config", known) or likely_name(known, topic.configs)
        return hint or (NAMES_HINT if is_unknown else None)
    if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION and collides(topic.name):
        return COLLISION_HINT
    return None


def collides(refused: str) -> bool:
    """Tell whether a name was refused because another one differs only in `.` and `_`."""
    from kcli.commands.shared.topic_filter import has_collision_characters

    is_good = re.fullmatch(GOOD_NAME, refused) and refused not in (".", "..", "__cluster_metadata")
    return bool(is_good) and has_collision_characters(refused)


async def config_names(client: Client, name: str) -> list[str]:
    """Return the names of the configurations that a new topic `name` would have."""
    from kcli.client import admin

    plain = admin.NewTopic(name, -1, -1)
    with suppress(KcliError):  # It is only for the hint of another error.
        answer = (await admin.create_topics(client, [plain], validate_only=True))[name]
        configs = answer.configs if isinstance(answer, admin.TopicCreated) else None
        return [entry.name for entry in configs or ()]
    return []


CREATE_HINT = "the broker creates it with its own settings when it is needed; `--force` creates it with these"
ALTER_HINT = (
    "`--force` adds partitions: groups and transactional ids that move to another one lose their state"
)
DELETE_HINT = "`--force` deletes it"


def guarded(names: Iterable[str], *, done: str, hint: str) -> dict[str, KcliError]:
    """Return the errors of the internal topics among `names`, which were not `done`."""
    return {
        name: KcliError(f"topic `{name}` is internal and was not {done}", hint=hint)
        for name in names
        if name in INTERNAL_TOPICS
    }


async def refuse_new(client: Client, name: str) -> None:
    """Raise `KcliError` for an internal topic that does not exist yet."""
    from kcli.client import admin

    refused = guarded([name], done="created", hint=CREATE_HINT)
    if refused and name not in {listing.name for listing in await admin.list_topics(client)}:
        raise refused[name]


TOPIC_ID = r"(?a:[\w-]{22}(==)?)"


def parse_topic_id(text: str) -> bytes:
    """Return a topic id from its 22 characters of text."""
    if not re.fullmatch(TOPIC_ID, text):
        raise UsageError(
            f"`--topic-id` needs a topic's id: {text}",
            hint="22 letters, digits, - and _, as `kcli topics describe TOPIC` shows it",
        )
    return uuid_from_text(text.removesuffix("=="))


async def topics_with_id(client: Client, topic_id: bytes) -> list[str]:
    """Return the name of the topic with this id, or no name."""
    from kcli.client import admin

    return [listing.name for listing in await admin.list_topics(client) if listing.topic_id == topic_id]
