"""What can be done where a broker refuses a new topic, beyond what the code of its error tells."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kcli.client.admin import NewTopic
    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError

GOOD_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
COLLISION_HINT = "metric names would be the same for both topics: choose another name"


async def refusal_hint(client: Client, topic: NewTopic, error: KafkaError) -> str | None:
    """Return a hint for a refusal, None where that of its code will do."""
    from kcli.commands.config_names import likely_name

    if error.wants_hint and error.code is ErrorCode.INVALID_CONFIG:
        return likely_name(await config_names(client, topic.name), topic.configs)
    if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION and collides(topic.name):
        return COLLISION_HINT
    return None


def collides(refused: str) -> bool:
    """Tell whether a refused name can only be one that differs from another in `.` and `_`."""
    from kcli.commands.topic_filter import has_collision_characters

    is_good = GOOD_NAME.fullmatch(refused) and refused not in (".", "..", "__cluster_metadata")
    return bool(is_good) and has_collision_characters(refused)


async def config_names(client: Client, name: str) -> list[str]:
    """Return the names of the configurations of topics: those that a topic `name` would have."""
    from kcli.client import admin

    plain = admin.NewTopic(name, -1, -1)
    with suppress(KcliError):  # They are only wanted for the hint of an error that is told anyway.
        answer = (await admin.create_topics(client, [plain], validate_only=True))[name]
        configs = answer.configs if isinstance(answer, admin.TopicCreated) else None
        return [entry.name for entry in configs or ()]
    return []
