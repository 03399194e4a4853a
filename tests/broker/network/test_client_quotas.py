"""Quotas: which limit counts, which clients share it, and how long they have to pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.metadata.metadata_image import quota_entity
from kcli.broker.network.client_quotas import ByteRate, ClientQuotas, throttle_time_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.metadata.metadata_image import QuotaEntity


def rate(samples: int = 11, sample_ms: int = 1000) -> ByteRate:
    return ByteRate(samples=samples, sample_ms=sample_ms)


@pytest.mark.parametrize(
    ("samples", "sample_ms", "records", "at_ms", "expected"),
    [
        # Those of Kafka's `MetricsTest`: a rate over two samples of half a minute.
        (2, 30_000, [(0, 10)], 1_000, 10 / 31),
        (2, 30_000, [(second * 1000, 1) for second in range(60)], 60_000, 1.0),
        # The first moments count as if there had been ten seconds without anything.
        (11, 1000, [(0, 1000)], 0, 100.0),
        (11, 1000, [(0, 1000)], 500, 1000 / 10.5),
        (11, 1000, [(0, 1000), (10_500, 1000)], 10_500, 2000 / 10.5),
        # What is older than all samples is forgotten, what began before but went on is not.
        (11, 1000, [(0, 1000)], 10_999, 1000 / 10.999),
        (11, 1000, [(0, 1000)], 11_000, 0.0),
        (11, 1000, [(0, 1000), (999, 1000)], 11_500, 2000 / 11.5),
        # A single sample is as long as it has lasted, at least a millisecond.
        (1, 1000, [(0, 5)], 0, 5000.0),
        (1, 1000, [(0, 5)], 999, 5 / 0.999),
        # What is taken back was never there.
        (11, 1000, [(0, 1000), (0, 500), (0, -500)], 0, 100.0),
    ],
)
def test_a_rate_is_the_mean_over_the_samples(
    samples: int, sample_ms: int, records: list[tuple[int, int]], at_ms: int, expected: float
) -> None:
    measured = rate(samples, sample_ms)
    for now_ms, size in records:
        measured.record(size, now_ms)
    assert measured.measure(at_ms)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("measured", "limit", "window_ms", "pause_ms"),
    [
        # The first three are those of Kafka's `QuotaUtilsTest`.
        (100.0, 50.0, 2000, 2000),
        (18.2, 18.2, 10_000, 0),
        (7.5, 18.2, 10_000, 0),
        (18.21, 18.2, 10_000, 5),
        (18.2000001, 18.2, 10_000, 0),
        # Half a millisecond is a whole one.
        (1.5, 1.0, 1, 1),
        (1.25, 1.0, 1, 0),
        # What was sent at once is made up for, however long that takes; the field has 31 bits.
        (1e6, 1.0, 10_000, 2**31 - 1),
        (1e6, 1e-320, 10_000, 2**31 - 1),
        (1e3, 1.0, 10_000, 9_990_000),
    ],
)
def test_a_pause_brings_the_rate_down_to_its_limit(
    measured: float, limit: float, window_ms: int, pause_ms: int
) -> None:
    assert throttle_time_ms(measured, limit, window_ms) == pause_ms


@given(
    limit=st.integers(1, 1 << 40),
    sizes=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 1 << 30)), min_size=1, max_size=40),
)
def test_after_a_pause_the_rate_is_within_its_limit(limit: int, sizes: list[tuple[int, int]]) -> None:
    measured = rate()
    now_ms = 0
    for wait_ms, size in sizes:
        now_ms += wait_ms
        measured.record(size, now_ms)
    observed, window_ms = measured.measure(now_ms)
    pause_ms = throttle_time_ms(observed, limit, window_ms)
    if observed <= limit:
        assert pause_ms == 0
    elif pause_ms < 2**31 - 1:
        # As Kafka has it: what the rate would be if the window were longer by the pause.
        slower = observed * window_ms / (window_ms + pause_ms)
        assert slower <= limit * (1 + 1 / (window_ms + pause_ms))
        assert pause_ms == 0 or observed * window_ms / (window_ms + pause_ms - 1) > limit * (
            1 - 1 / (window_ms + pause_ms)
        )


@given(
    records=st.lists(st.tuples(st.integers(0, 2500), st.integers(0, 1 << 30)), max_size=60),
    samples=st.integers(1, 12),
)
def test_nothing_is_counted_twice_and_what_is_new_is_counted(
    records: list[tuple[int, int]], samples: int
) -> None:
    measured = rate(samples, 1000)
    now_ms = 0
    recorded = []
    for wait_ms, size in records:
        now_ms += wait_ms
        measured.record(size, now_ms)
        recorded.append((now_ms, size))
        value, window_ms = measured.measure(now_ms)
        held = value * window_ms / 1000
        assert (samples - 1) * 1000 < window_ms + 1
        new = sum(each for when, each in recorded if now_ms - when < (samples - 1) * 1000)
        assert new * (1 - 1e-9) <= held <= sum(each for _, each in recorded) * (1 + 1e-9)


# --- whose limit counts --------------------------------------------------------------------------------

BY_PRECEDENCE = [
    {"user": "ANONYMOUS", "client-id": "me"},
    {"user": "ANONYMOUS", "client-id": None},
    {"user": "ANONYMOUS"},
    {"user": None, "client-id": "me"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "me"},
    {"client-id": None},
]
FOREIGN: list[dict[str, str | None]] = [
    {"user": "somebody"},
    {"user": "somebody", "client-id": "me"},
    {"client-id": "you"},
    {"user": "ANONYMOUS", "client-id": "you"},
    {"ip": None},
]


def quotas(
    *entities: Mapping[str, str | None], key: str = "producer_byte_rate", first: int = 1000
) -> dict[QuotaEntity, dict[str, float]]:
    """Return a quota for each entity: 1000, 1001 and so on."""
    return {quota_entity(entity): {key: float(first + number)} for number, entity in enumerate(entities)}


def client_quotas(settings: dict[QuotaEntity, dict[str, float]]) -> ClientQuotas:
    found = ClientQuotas(samples=11, sample_ms=1000)
    found.update(settings)
    return found


def limit(found: ClientQuotas, client_id: str) -> float | None:
    allowance = found.producer(client_id, 0)
    return None if allowance is None else allowance.limit


@pytest.mark.parametrize("number", range(len(BY_PRECEDENCE)))
def test_the_most_specific_entity_that_has_a_limit_counts(number: int) -> None:
    settings = quotas(*BY_PRECEDENCE[number:], *FOREIGN)
    assert limit(client_quotas(settings), "me") == 1000
    assert limit(client_quotas(dict(reversed(settings.items()))), "me") == 1000


def test_a_limit_of_others_or_of_something_else_does_not_count() -> None:
    assert limit(client_quotas(quotas(*FOREIGN)), "me") is None
    readers = client_quotas(quotas(*BY_PRECEDENCE, key="consumer_byte_rate"))
    assert limit(readers, "me") is None
    assert readers.consumer("me", 0) is not None
    percentages = client_quotas(quotas(*BY_PRECEDENCE, key="request_percentage"))
    assert not percentages.has_any
    assert limit(percentages, "me") is None


def test_each_user_has_the_limit_of_its_own() -> None:
    found = client_quotas(quotas({"user": "alice"}, {"user": None}))
    users = {name: found.producer("me", 0, name) for name in ("alice", "bob", "ANONYMOUS")}
    assert {name: each and each.limit for name, each in users.items()} == {
        "alice": 1000,
        "bob": 1001,
        "ANONYMOUS": 1001,
    }
    assert users["alice"] is not None
    assert users["bob"] is not None
    assert users["alice"].take(100_000, 1000) > 0
    assert users["bob"].take(1, 1000) == 0


def test_a_client_without_an_id_is_only_its_user() -> None:
    assert limit(client_quotas(quotas({"client-id": None}, {"user": None, "client-id": None})), "") is None
    assert limit(client_quotas(quotas(*BY_PRECEDENCE)), "") == 1002


@pytest.mark.parametrize(
    ("entity", "is_shared"),
    [
        ({"user": "ANONYMOUS"}, True),
        ({"user": None}, True),
        ({"client-id": None}, False),
        ({"user": "ANONYMOUS", "client-id": None}, False),
        ({"user": None, "client-id": None}, False),
    ],
    ids=str,
)
def test_the_clients_of_one_user_share_and_those_of_a_default_do_not(
    entity: dict[str, str | None], is_shared: bool
) -> None:
    found = client_quotas(quotas(entity))
    one, other = found.producer("one", 0), found.producer("other", 0)
    assert one is not None
    assert other is not None
    assert one.take(10_000, 0) == 0
    assert (other.take(1000, 0) > 0) is is_shared
    assert one.take(1000, 0) > 0


def test_what_was_used_stays_used_when_a_limit_changes() -> None:
    found = client_quotas(quotas({"client-id": "me"}))
    before = found.producer("me", 0)
    assert before is not None
    assert before.take(10_000, 0) == 0
    found.update(quotas({"client-id": "me"}, first=500))
    after = found.producer("me", 0)
    assert after is not None
    assert (after.limit, after.take(0, 0)) == (500, 10_000)


def test_more_at_once_than_the_window_holds_would_always_be_too_much() -> None:
    allowance = client_quotas(quotas({"user": None})).producer("", 0)
    assert allowance is not None
    assert allowance.max_bytes == 10_000
    assert allowance.take_if_free(10_001, 0) > 0
    assert allowance.take_if_free(10_000, 0) == 0


def test_clients_that_are_gone_are_forgotten() -> None:
    found = client_quotas(quotas({"client-id": None}))
    for number in range(5000):
        allowance = found.producer(f"client-{number}", number * 100)
        assert allowance is not None
        allowance.take(20_000, number * 100)
    assert len(found._rates) < 1200
    last = found.producer("client-4999", 499_900)
    assert last is not None
    assert last.take(0, 499_900) > 0
