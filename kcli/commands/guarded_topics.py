"""What harms an internal topic is refused unless it is asked for by `--force`.

The coordinators find their groups and transactional ids by the number of its partitions: it is made with
the broker's own settings when it is first needed, and another number later strands what it holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.protocol.topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from kcli.client.client import Client

CREATE_HINT = "the broker creates it with its own settings when it is needed; `--force` creates it like this"
ALTER_HINT = (
    "`--force` adds partitions: groups and transactional ids that fall to another one lose their state"
)
DELETE_HINT = "`--force` deletes it"


def guarded(names: Iterable[str], *, done: str, hint: str) -> dict[str, KcliError]:
    """Return why those topics that are internal were not `done`."""
    return {
        name: KcliError(f"topic `{name}` is internal and was not {done}", hint=hint)
        for name in names
        if name in INTERNAL_TOPICS
    }


async def refuse_new(client: Client, name: str) -> None:
    """Raise `KcliError` for an internal topic that there is not yet."""
    from kcli.client import admin

    refused = guarded([name], done="created", hint=CREATE_HINT)
    if refused and name not in {listing.name for listing in await admin.list_topics(client)}:
        raise refused[name]
