"""Configurations with units: the broker gets plain numbers, and what could mean two things is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kcli.commands.shared.units import plain_number
from kcli.errors import UsageError
from tests.conftest import Finished

Kcli = Callable[..., Finished]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "1h30m", "5400000"),
        ("retention.ms", "1.5s", "1500"),
        ("retention.ms", "500 ms", "500"),
        ("log.retention.hours", "1w", "168"),
        ("log.retention.minutes", "2h", "120"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "604800000", "604800000"),
        ("segment.bytes", "10MiB", "10485760"),
        ("segment.bytes", "1.5KiB", "1536"),
        ("max.message.bytes", "7B", "7"),
        ("consumer_byte_rate", "1GiB", "1073741824"),
        ("leader.replication.throttled.rate", "1MiB", "1048576"),
        ("compression.type", "lz4", "lz4"),
        ("min.insync.replicas", "2d", "2d"),
        ("retention.ms", "soon", "soon"),
        ("message.format.version", "3.0-IV1", "3.0-IV1"),
    ],
)
def test_the_name_tells_what_a_number_counts(name: str, value: str, expected: str) -> None:
    assert plain_number(name, value) == expected


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("segment.bytes", "10MB", "unknown unit `MB` in `segment.bytes=10MB`", "write 10000000 for powers"),
        ("segment.bytes", "10M", "unknown unit `M` in", "10MiB is a power of 1024"),
        ("segment.bytes", "2k", "unknown unit `k` in", "2KiB is a power of 1024; write 2000"),
        ("segment.bytes", "10mib", "unknown unit `mib` in", "did you mean `10MiB`?"),
        ("segment.bytes", "7d", "unknown unit `d` in", "units are KiB, MiB"),
        ("retention.ms", "7M", "unknown unit `M` in", "did you mean `7m`?"),
        ("retention.ms", "7y", "unknown unit `y` in", "units are ms, s, m"),
        ("retention.ms", "1h-2m", "not a number with a unit", "units are ms"),
        (
            "log.retention.hours",
            "30m",
            "`log.retention.hours=30m` is not a whole number of hours",
            "units are ms",
        ),
        ("segment.bytes", "0.3B", "is not a whole number of bytes", "units are KiB"),
    ],
)
def test_a_unit_that_does_not_fit_is_refused(name: str, value: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        plain_number(name, value)
    assert message in raised.value.message
    assert hint in str(raised.value.hint)


def test_commands_send_the_plain_number(live: Kcli, new_topic: Callable[[int], str]) -> None:
    topic = f"{new_topic(1)}-units"
    made = live(
        "topics", "create", topic, "-p", "2", "-r", "1", "-c", "retention.ms=7d", "-c", "segment.bytes=10MiB"
    )
    assert made.exit_code == 0, made.err
    described = json.loads(live("topics", "describe", topic, "-o", "json").out)["topics"][0]
    assert len(described["partitions"]) == 2
    altered = live("configs", "alter", topic, "--add", "segment.ms=12h,segment.bytes=20MiB")
    assert altered.exit_code == 0, altered.err
    shown = live("configs", "describe", topic).out
    assert all(
        each in shown for each in ("retention.ms=604800000", "segment.ms=43200000", "segment.bytes=20971520")
    )
    refused = live("configs", "alter", topic, "--add", "segment.bytes=10MB")
    assert (refused.exit_code, refused.err.splitlines()[1]) == (
        2,
        "hint: 10MiB is a power of 1024; write 10000000 for powers of 1000",
    )
    started = live("broker", "start", "--override", "log.retention.ms=7x", "--data-dir", "nowhere")
    assert (started.exit_code, started.err.splitlines()[0]) == (
        2,
        "error: unknown unit `x` in `log.retention.ms=7x`",
    )
