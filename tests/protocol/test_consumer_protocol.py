"""What consumers tell each other: known bytes, round trips, the future, and damage."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from kcli.protocol.schema.declaration import DecodeError, EncodeError

SUBSCRIPTIONS = [
    (0, Subscription(("t0", "t1")), "0000 00000002 00027430 00027431 ffffffff"),
    (0, Subscription(("t0", "t1"), b""), "0000 00000002 00027430 00027431 00000000"),
    (
        1,
        Subscription(("t0",), owned_partitions={"t0": (0, 1)}),
        "0001 00000001 00027430 ffffffff 00000001 00027430 00000002 00000000 00000001",
    ),
    (3, Subscription(("t0",)), "0003 00000001 00027430 ffffffff 00000000 ffffffff ffff"),
    (
        3,
        Subscription(("t0",), b"\0\0\0\x05", owned_partitions={"t0": (0,)}, generation_id=5, rack_id="r1"),
        "0003 00000001 00027430 00000004 00000005 00000001 00027430 00000001 00000000 00000005 00027231",
    ),
]
ASSIGNMENTS = [
    (0, Assignment({"t0": (0, 2)}), "0000 00000001 00027430 00000002 00000000 00000002 ffffffff"),
    (0, Assignment(), "0000 00000000 ffffffff"),
    (3, Assignment({}, b"u"), "0003 00000000 00000001 75"),
]


@pytest.mark.parametrize(("version", "value", "data"), SUBSCRIPTIONS)
def test_known_subscriptions(version: int, value: Subscription, data: str) -> None:
    assert encode_subscription(value, version) == bytes.fromhex(data)
    assert decode_subscription(bytes.fromhex(data)) == value


@pytest.mark.parametrize(("version", "value", "data"), ASSIGNMENTS)
def test_known_assignments(version: int, value: Assignment, data: str) -> None:
    assert encode_assignment(value, version) == bytes.fromhex(data)
    assert decode_assignment(bytes.fromhex(data)) == value


def test_topics_are_read_whatever_follows_the_fields_of_version_0() -> None:
    assert subscribed_topics(bytes.fromhex("0001 00000001 00027430 ffffffff")) == ("t0",)
    with pytest.raises(DecodeError):
        decode_subscription(bytes.fromhex("0001 00000001 00027430 ffffffff"))
    for data in (b"", b"\0", bytes.fromhex("0001 00000001 00027430")):
        with pytest.raises(DecodeError):
            subscribed_topics(data)


def test_topics_and_owned_partitions_are_written_in_order() -> None:
    unordered = Subscription(("b", "a"), owned_partitions={"b": (2, 0), "a": (1,)})
    ordered = Subscription(("a", "b"), owned_partitions={"a": (1,), "b": (0, 2)})
    assert decode_subscription(encode_subscription(unordered)) == ordered


def test_no_bytes_are_nothing() -> None:
    assert decode_subscription(b"") == Subscription(())
    assert decode_assignment(memoryview(b"")) == Assignment()


@pytest.mark.parametrize(("version", "value", "data"), [SUBSCRIPTIONS[3], SUBSCRIPTIONS[4]])
def test_a_subscription_from_the_future_reads_as_the_newest_known(
    version: int, value: Subscription, data: str
) -> None:
    assert decode_subscription(b"\x00\x63" + bytes.fromhex(data)[2:] + b"more") == value


def test_an_assignment_from_the_future_reads_as_the_newest_known() -> None:
    assert (
        decode_assignment(bytes.fromhex("7fff") + bytes.fromhex(ASSIGNMENTS[0][2])[2:] + b"more")
        == (ASSIGNMENTS[0][1])
    )


def test_a_topic_named_twice_has_the_partitions_of_both() -> None:
    data = bytes.fromhex("0000 00000002 000174 00000001 00000000 000174 00000001 00000003 ffffffff")
    assert decode_assignment(data) == Assignment({"t": (0, 3)})


@pytest.mark.parametrize("data", ["00", "ffff00000000ffffffff", "000000000001", "0001 00000000 ffffffff"])
def test_what_is_no_subscription_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(bytes.fromhex(data))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError):
        encode_subscription(Subscription(("x" * 40_000,)))


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
OWNED = st.dictionaries(
    TEXT, st.lists(st.integers(0, 2**31 - 1), max_size=4).map(sorted).map(tuple), max_size=3
)
DATA = st.none() | st.binary(max_size=20)


@given(
    st.builds(
        Subscription,
        st.lists(TEXT, max_size=4).map(sorted).map(tuple),
        DATA,
        OWNED,
        st.integers(-1, 2**31 - 1),
        st.none() | TEXT.filter(bool),
    ),
    st.integers(0, 3),
)
def test_a_subscription_keeps_what_its_version_carries(value: Subscription, version: int) -> None:
    assert decode_subscription(memoryview(encode_subscription(value, version))) == Subscription(
        value.topics,
        value.user_data,
        value.owned_partitions if version >= 1 else {},
        value.generation_id if version >= 2 else -1,
        value.rack_id if version >= 3 else None,
    )


@given(st.builds(Assignment, OWNED, DATA), st.integers(0, 3))
def test_an_assignment_is_the_same_in_every_version(value: Assignment, version: int) -> None:
    assert decode_assignment(encode_assignment(value, version)) == value


@given(st.sampled_from([*SUBSCRIPTIONS, *ASSIGNMENTS]), st.data())
def test_damage_raises_nothing_but_a_decode_error(
    case: tuple[int, Subscription | Assignment, str], data: st.DataObject
) -> None:
    damaged = bytearray.fromhex(case[2])
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for decode in (decode_subscription, decode_assignment):
        with contextlib.suppress(DecodeError):
            decode(cut)
