"""Names of configurations that are to return to their default: brokers take any, also a misspelled one.

So names that do not exist are refused here. Kafka's own tool refuses those without a value of their own, too;
to return to a default twice is no error of kcli's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kcli.client.admin import ConfigResource
    from kcli.client.client import Client


async def refuse_unknown(client: Client, resources: Iterable[ConfigResource], names: Sequence[str]) -> None:
    """Raise for the first name that one of the resources does not know.

    The default of all brokers lists only what is set, so nothing can be told of it. Nor of a resource that is
    not described: what is in the way of that is in the way of the alteration, too.
    """
    from kcli.client import admin

    kinds = admin.ConfigResourceType
    kinds = admin.ConfigResourceType
    told = [each for each in resources if each.name and each.type in (kinds.TOPIC, kinds.BROKER, kinds.GROUP)]
    if not names or not told:
        return
    for resource, answer in (await admin.describe_configs(client, told, names=names)).items():
        if isinstance(answer, KcliError):
            continue
        for name in sorted({*names} - {entry.name for entry in answer}):
            raise KcliError(
                f"{resource.type.name.lower()} {resource.name} has no configuration `{name}`",
                hint="`kcli configs describe` shows names and values with `--all`",
            )
