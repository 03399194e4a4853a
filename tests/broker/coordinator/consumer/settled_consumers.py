"""Helpers: settled members of a consumer group, and the records that it stored."""

from __future__ import annotations

from typing import Any

from kcli.broker.coordinator.consumer.group import ConsumerGroupState
from kcli.protocol.internal.coordinator_records import decode_record
from tests.broker.coordinator.virtual_consumers import Consumer, VirtualConsumers


def settled(world: VirtualConsumers, *names: str, **says: Any) -> list[Consumer]:
    """Return members that joined one after the other and share the topics."""
    consumers = [Consumer(world, name, {**says}) for name in names]
    for count in range(1, len(consumers) + 1):
        for _ in range(4):
            for consumer in consumers[:count]:
                consumer.beat()
    assert world.consumer_group().state is ConsumerGroupState.STABLE
    return consumers


def stored(world: VirtualConsumers, since: int = 0) -> list[str]:
    """Return the records of the log, one line each: type, member or expression, and content."""
    lines = []
    for key, value in world.log[since:]:
        record = decode_record(key, value)
        named = getattr(record.key, "member_id", None) or getattr(record.key, "regular_expression", "")
        kind = type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        lines.append(f"{kind} {named} {say(record.value)}".replace("  ", " "))
    return lines


def say(value: Any) -> str:
    match type(value).__name__.removeprefix("ConsumerGroup").removesuffix("Value"):
        case "Metadata":
            return f"epoch {value.epoch}"
        case "MemberMetadata":
            return ",".join(value.subscribed_topic_names) + value.subscribed_topic_regex
        case "TargetAssignmentMetadata":
            return f"epoch {value.assignment_epoch}"
        case "TargetAssignmentMember":
            return str([each.partitions for each in value.topic_partitions])
        case "CurrentMemberAssignment":
            has = [(each.partitions, each.assignment_epochs) for each in value.assigned_partitions]
            revoking = [each.partitions for each in value.partitions_pending_revocation]
            epochs = f"epoch {value.member_epoch} after {value.previous_member_epoch}"
            return f"{epochs} state {value.state} {has} {revoking}"
        case "RegularExpression":
            return ",".join(value.topics)
        case _:
            return "none" if value is None else repr(value)
