"""A consumer as a member of the consumer protocol, for tests."""

from __future__ import annotations

from functools import partial

from kcli.client.config import ConsumerConfig
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.client.fake_brokers import FakeBrokers
from tests.client.groups.fake_consumer_group import FakeConsumerGroup
from tests.client.groups.grouped_consumer import by_index, grouped_by

CONFIG = ConsumerConfig(group_id="g", group_protocol="consumer", auto_offset_reset="earliest")
STATIC = ConsumerConfig(
    group_id="g", group_protocol="consumer", auto_offset_reset="earliest", group_instance_id="i1"
)
MANUAL = ConsumerConfig(
    group_id="g", group_protocol="consumer", auto_offset_reset="earliest", enable_auto_commit=False
)
Heartbeat = ConsumerGroupHeartbeatRequest


grouped = partial(grouped_by, FakeConsumerGroup)


def committed(group: FakeConsumerGroup) -> dict[int, int]:
    return by_index(group.offsets())


def refusal(code: int, why: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=why)


def epochs(brokers: FakeBrokers) -> list[int]:
    return [request.member_epoch for request in brokers.received(Heartbeat)]
