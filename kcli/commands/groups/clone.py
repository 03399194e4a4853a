"""Planning the copy of a group's offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.client import admin
from kcli.commands.groups.lag import Committed, Partition
from kcli.commands.groups.lookup import committed_offsets, known_offsets, refusal, unknown_group
from kcli.commands.groups.reset import objection
from kcli.commands.groups.reset_plan import ResetFacts, ResetKind, ResetPlan, Scope, make_plan
from kcli.errors import KcliError
from kcli.protocol.error_codes import KafkaError

if TYPE_CHECKING:
    from kcli.client.client import Client


async def prepare_clone(
    client: Client, group: str, new: str, *, scope: Scope, force: bool, timeout_ms: int | None = None
) -> tuple[ResetPlan, Mapping[Partition, Committed]]:
    """Return the plan of the group `new`, and the offsets to be committed; raise if that cannot be."""
    described = await admin.describe_groups(client, [group, new], timeout_ms=timeout_ms)
    source = described[group]
    if isinstance(source, KafkaError):
        raise refusal(group, source)
    reason = objection(new, described[new])
    if reason is not None:
        raise reason
    committed, failures = await committed_offsets(client, [group, new], timeout_ms=timeout_ms)
    if failures:
        raise failures[0]
    copied = {partition: entry for partition, entry in committed[group].items() if is_in(partition, scope)}
    if not copied:
        if source.state == "Dead":
            raise unknown_group(group)
        raise KcliError(
            f"consumer group `{group}` has committed no offsets"
            + (" there" if scope.topics or scope.partitions else "")
        )
    if committed[new] and not force:
        raise KcliError(
            f"consumer group `{new}` has committed offsets of its own",
            hint="`--force` overwrites those of the same partitions and leaves the others",
        )
    facts = ResetFacts(
        {partition: entry.offset for partition, entry in committed[new].items()},
        await known_offsets(client, copied, admin.EARLIEST, timeout_ms=timeout_ms),
        await known_offsets(client, copied, admin.LATEST, timeout_ms=timeout_ms),
        requested={partition: entry.offset for partition, entry in copied.items()},
    )
    return make_plan(new, copied, kind=ResetKind.COPY, facts=facts), copied


def is_in(partition: Partition, scope: Scope) -> bool:
    """Tell whether a partition is meant; no scope means every one."""
    if not scope.topics and not scope.partitions:
        return True
    return partition[0] in scope.topics or partition in scope.partitions
