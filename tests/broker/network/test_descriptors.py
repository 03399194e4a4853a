"""Descriptors: accepting stops before they are used up, and new logs leave some to a running broker."""

from __future__ import annotations

import pytest
import trio

from kcli.broker.network.descriptors import Descriptors
from kcli.protocol.error_codes import ErrorCode, KafkaError


class CountedDescriptors(Descriptors):
    """A process with 1,000 descriptors, of which `used` are open."""

    def __init__(self, used: int) -> None:
        self.used = used
        self.counted = 0
        super().__init__()

    def read_limit(self) -> None:
        self.limit, self.reserve, self.first_reserved = 1000, 100, 900

    def count(self) -> int:
        self.counted += 1
        return self.used


@pytest.mark.parametrize(
    ("limit", "reserve"), [(64, 16), (256, 64), (1024, 128), (20_000, 1024), (1 << 20, 1024)]
)
def test_a_part_of_the_limit_is_kept_for_files(
    limit: int, reserve: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    descriptors = Descriptors()
    assert (descriptors.reserve, descriptors.first_reserved) == (reserve, limit - reserve)


async def test_accepting_goes_on_when_more_than_one_connection_has_ended(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    descriptors = CountedDescriptors(901)
    await descriptors.until_enough()
    descriptors.stop_accepting()
    descriptors.stop_accepting()
    assert descriptors.counts() == (1000, 100, 901, 1)
    waited = trio.Event()

    async def wait() -> None:
        await descriptors.until_enough()
        waited.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for used, is_enough in ((901, False), (876, False), (875, True)):
            descriptors.used = used
            await trio.sleep(1)
            assert waited.is_set() is is_enough
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert caplog.records[0].message == (
        "no connections are accepted until others end: 901 of 1000 file descriptors are open, 100 are kept"
        " for files; raise the limit: `ulimit -n`"
    )


def test_new_logs_leave_half_of_the_reserve() -> None:
    descriptors = CountedDescriptors(500)
    descriptors.check_room(450)
    with pytest.raises(KafkaError) as refused:
        descriptors.check_room(451)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused.value.message == "no file descriptors for 451 more logs: 500 of 1000 are open"
    with pytest.raises(KafkaError):
        descriptors.check_room(1, pending=450)
    descriptors.check_room(1, pending=449)


def test_few_requests_count_the_descriptors() -> None:
    descriptors = CountedDescriptors(0)
    while descriptors.used < 900:
        descriptors.check_room(1)
        descriptors.used += 1
    assert descriptors.counted < 20
    descriptors.used = 950
    with pytest.raises(KafkaError):
        descriptors.check_room(100)
