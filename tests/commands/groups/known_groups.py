"""Groups of every kind, with members and without, and the topics that they read."""

from __future__ import annotations

import time

import pytest

from kcli.client import admin
from tests.commands.fake_groups import FakeGroups, member, partitions_of
from tests.commands.groups.offsets_log import NOW

MINUTE = 60_000


def add_known_groups(fake: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """Add two topics and groups of both kinds; the time is `NOW`."""
    monkeypatch.setattr("kcli.commands.groups.records.first_timestamps", fake.first_timestamps)
    monkeypatch.setattr(time, "time_ns", lambda: NOW * 1_000_000)
    orders = fake.add("orders", [1], [1], [1])
    orders.offsets = {0: (10, 100), 1: (0, 50), 2: (0, 7)}
    fake.add("clicks", [1]).offsets = {0: (0, 40)}
    fake.timestamps = {
        ("orders", 0): [NOW - (100 - n) * MINUTE for n in range(10, 100)],
        ("orders", 1): [NOW - (50 - n) * 1000 for n in range(50)],
        ("clicks", 0): [NOW - 3 * 24 * 60 * MINUTE] * 40,
    }
    fake.add_group("billing", orders_0=40, orders_1=50, clicks_0=5)
    fake.add_group(
        "audit",
        member("one", "orders-0", "orders-1", instance_id="audit-1"),
        member("two", "orders-2", rack_id="r1"),
        orders_0=100,
        orders_1=20,
        old_0=3,
    )
    fake.add_group(
        "modern",
        member("three", "clicks-0", epoch=7, target_assignment=partitions_of("clicks-0"), is_classic=False),
        member("four", epoch=6, target_assignment=(), is_classic=True),
        state="Reconciling",
        type=admin.CONSUMER,
        clicks_0=40,
    )
    connect = fake.add_group("connect-sink", member("worker"))
    connect.description = connect.description._replace(protocol_type="connect")
    return fake
