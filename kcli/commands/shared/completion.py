"""Shell completion with names that only a cluster knows: topics, groups and configurations.

The cluster is the one that the command line names. A question to it takes at most `TIME_LIMIT_S`. A failure
gives no candidates and prints nothing: a shell would show the message in the middle of its line.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.client import Client

    Fetch = Callable[[Client], Awaitable[list[str]]]

TIME_LIMIT_S = 0.5


def topic_names(parameters: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the cluster's topics that begin with `incomplete`."""
    return names_beginning_with(incomplete, fetch_topic_names, parameters)


def config_names(parameters: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the configurations of the named broker, group or topic that begin with `incomplete`.

    If no topic is named, any topic will do: all have the same names. Only the last item of a list with commas
    is completed.
    """
    before, comma, last = incomplete.rpartition(",")
    found = names_beginning_with(last, partial(fetch_config_names, parameters=parameters), parameters)
    return [f"{before}{comma}{name}" for name in found]


def names_beginning_with(incomplete: str, fetch: Fetch, parameters: Mapping[str, Any]) -> list[str]:
    """Return the fetched names that begin with `incomplete`, none if the cluster cannot be asked."""
    import trio

    from kcli.escapes import is_safe

    try:
        names = trio.run(ask_cluster, fetch, parameters)
    except* Exception:
        names = []
    # A shell would print control characters of a name as they are.
    return [name for name in names if name.startswith(incomplete) and is_safe(name)]


async def ask_cluster(fetch: Fetch, parameters: Mapping[str, Any]) -> list[str]:
    """Return what `fetch` tells of the cluster that the command line names, nothing after the limit."""
    import trio

    import kcli.client.admin.topics  # noqa: F401 - importing it must not count as the cluster's time
    from kcli.commands.shared.session import open_client

    with trio.move_on_after(TIME_LIMIT_S):
        async with open_client(
            parameters.get("bootstrap_server") or os.environ.get("KCLI_BOOTSTRAP_SERVER") or None,
            parameters.get("command_config"),
            parameters.get("command_property"),
            profile=parameters.get("profile") or os.environ.get("KCLI_PROFILE") or None,
        ) as client:
            return await fetch(client)
    return []


async def fetch_topic_names(client: Client) -> list[str]:
    from kcli.client import admin

    return [listing.name for listing in await admin.list_topics(client)]


async def fetch_config_names(client: Client, *, parameters: Mapping[str, Any]) -> list[str]:
    from kcli.client import admin

    kinds = {"broker": admin.ConfigResourceType.BROKER, "group": admin.ConfigResourceType.GROUP}
    named = [
        admin.ConfigResource(kind, parameters[key]) for key, kind in kinds.items() if parameters.get(key)
    ]
    if not named:
        topics = await fetch_topic_names(client)
        wanted = parameters.get("topic") or parameters.get("topic_option")
        topic = wanted if wanted in topics else next(iter(topics), "")
        named = [admin.ConfigResource(admin.ConfigResourceType.TOPIC, topic)]
    described = (await admin.describe_configs(client, named))[named[0]]
    return [] if isinstance(described, KcliError) else [entry.name for entry in described]
