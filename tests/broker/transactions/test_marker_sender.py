"""MarkerSender: where markers go, when, and what each answer leads to."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
import trio
import trio.testing

from kcli.broker.transactions.marker_sender import ANSWERS, Answer
from kcli.broker.transactions.marker_writer import TURN_PARTITIONS
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.topics import TopicPartition
from tests.broker.transactions.sending import UNREACHABLE, Sending, markers, running_sender

A, B, C = (TopicPartition("t", index) for index in range(3))

Clock = trio.testing.MockClock


def calls(sending: Sending) -> list[tuple[int, list[TopicPartition]]]:
    """Return which partitions went to which node, in order."""
    return [(node_id, keys) for _, node_id, keys in sending.calls]


def told(sending: Sending) -> list[tuple[str, object]]:
    return [(name, what) for _, name, what in sending.told]


async def test_markers_of_the_own_node_are_written_before_anything_else_runs(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 1, B: 1}
        sender.send(markers("x", A, B))
        assert calls(sending) == [(1, [A, B])]
        assert told(sending) == [("x", [A, B])]
        (marker,) = sending.markers
        assert (marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version) == (4, 5, 2)
        assert marker.transaction_result
        assert sender.pending_count == 0


async def test_a_turn_writes_only_so_many(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        keys = [TopicPartition("t", index) for index in range(2 * TURN_PARTITIONS + 1)]
        sending.leaders = dict.fromkeys(keys, 1)
        sender.send(markers("x", *keys))
        assert [len(keys) for _, keys in calls(sending)] == [64]
        await trio.testing.wait_all_tasks_blocked()
        assert [len(keys) for _, keys in calls(sending)] == [64, 64, 1]
        assert sender.pending_count == 0


async def test_a_write_that_waits_for_replicas_is_told_later(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 1, B: 1}
        sending.delays_own = True
        sender.send(markers("x", A))
        sender.send(markers("y", B, is_commit=False))
        await trio.testing.wait_all_tasks_blocked()
        assert (told(sending), sender.pending_count) == ([], 2)
        sending.end_write()
        assert told(sending) == [], "not inside of what ended the write"
        await trio.testing.wait_all_tasks_blocked()
        assert told(sending) == [("x", [A])]
        assert [marker.transaction_result for marker in sending.markers] == [True, False]


async def test_a_node_gets_one_call_at_a_time_and_what_queues_meanwhile_together(
    autojump_clock: Clock,
) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 2, B: 2, C: 3}
        sending.call_seconds = 1
        began = round(trio.current_time(), 3)
        sender.send(markers("x", A, C))
        for name in ("y", "z"):
            await trio.sleep(0.1)
            sender.send(markers(name, A, B))
        await trio.sleep(5)
        assert sorted(sending.calls) == [
            (began, 2, [A]),
            (began, 3, [C]),
            (began + 1, 2, [A, B, A, B]),
        ]
        assert sorted(sending.told) == [
            (began + 1, "x", [A]),
            (began + 1, "x", [C]),
            (began + 2, "y", [A, B]),
            (began + 2, "z", [A, B]),
        ]
        assert sending.most_running == 2


@pytest.mark.parametrize(
    ("leader", "code"),
    [(2, UNREACHABLE), *((leader, code) for leader in (1, 2) for code in ErrorCode)],
    ids=lambda value: getattr(value, "name", str(value)),
)
async def test_each_answer_has_its_consequence(
    leader: int, code: int, caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    answer = Answer.AGAIN if code == UNREACHABLE else ANSWERS.get(ErrorCode.of(code), Answer.LATER)
    with caplog.at_level(logging.WARNING):
        async with running_sender() as (sending, sender):
            sending.leaders = {A: leader}
            sending.codes = {A: [code]}
            began = round(trio.current_time(), 3)
            sender.send(markers("x", A))
            await trio.sleep(60)
    match answer:
        case Answer.DONE:
            expected, times, lines = [(began, "x", [A])], [began], 0
        case Answer.AGAIN:
            expected, times, lines = [(began + 0.02, "x", [A])], [began, began + 0.02], 0
        case Answer.FENCED:
            expected, times, lines = [(began, "x", "fenced")], [began], 1
        case Answer.LATER:
            expected, times, lines = [(began + 30, "x", [A])], [began, began + 30], 1
    assert sending.told == expected
    assert [at for at, *_ in sending.calls] == times
    assert len(caplog.records) == lines
    assert sender.pending_count == 0


def test_the_answers_are_those_of_kafka() -> None:
    by_answer = {answer: {int(code) for code, each in ANSWERS.items() if each is answer} for answer in Answer}
    assert by_answer == {
        Answer.DONE: {0, 43, 35},
        Answer.AGAIN: {3, 6, 7, 19, 20, 56},
        Answer.FENCED: {47, 52},
        Answer.LATER: set(),
    }


async def test_the_time_between_attempts_doubles_up_to_a_second(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 2}
        sending.codes = {A: [UNREACHABLE] * 9}
        sender.send(markers("x", A))
        await trio.sleep(20)
        times = [at for at, *_ in sending.calls]
        waits = [round(later - earlier, 3) for earlier, later in pairwise(times)]
        assert waits == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1, 1, 1]
        assert told(sending) == [("x", [A])]


async def test_a_new_image_ends_the_wait_and_the_new_leader_gets_the_marker(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 2, B: 1}
        sending.codes = {A: [6, 6, 6, 6, 6, 6, 6, 6]}
        sender.send(markers("x", A, B))
        await trio.sleep(2)
        assert told(sending) == [("x", [B])]
        sending.codes.clear()
        sending.leaders[A] = 3
        sender.image_changed()
        await trio.testing.wait_all_tasks_blocked()
        assert calls(sending)[-1] == (3, [A])
        assert told(sending) == [("x", [B]), ("x", [A])]
        await trio.sleep(10)
        assert calls(sending)[-1] == (3, [A]), "the timer of the last attempt is cancelled"


async def test_the_new_leader_need_not_wait_for_the_answer_of_the_former_one(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 2, B: 2}
        sending.call_seconds = 30
        sender.send(markers("x", A, B))
        await trio.sleep(1)
        sender.send(markers("y", A))  # It queues behind the call.
        await trio.sleep(1)
        sending.leaders[A] = 1
        sender.image_changed()
        assert told(sending) == [("x", [A]), ("y", [A])]
        await trio.sleep(60)
        assert told(sending) == [("x", [A]), ("y", [A]), ("x", [B])]
        assert calls(sending) == [(2, [A, B]), (1, [A]), (1, [A])]


async def test_a_call_that_arrives_late_has_no_marker_that_went_another_way(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 2, B: 2, C: 2}
        sending.travel_seconds = 30
        sender.send(markers("x", A, B))
        sender.send(markers("y", A, C))
        await trio.sleep(1)
        sending.leaders[A] = 1
        sender.image_changed()
        assert told(sending) == [("x", [A]), ("y", [A])]
        sending.leaders[A] = 2
        sender.image_changed()
        await trio.sleep(60)
        assert calls(sending)[2:] == [(2, [B, C])]
        assert sorted(told(sending)[2:]) == [("x", [B]), ("y", [C])]


async def test_a_call_that_arrives_late_has_no_marker_of_a_shard_that_has_moved(
    autojump_clock: Clock,
) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 2}
        sending.travel_seconds = 30
        sender.send(markers("x", A))
        await trio.sleep(1)
        sender.drop(3)
        await trio.sleep(60)
        assert (calls(sending), told(sending)) == ([(2, [])], [])


async def test_a_partition_without_a_leader_waits_for_an_image_with_one(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: -1, B: -1}
        sender.send(markers("x", A, B))
        sender.send(markers("y", A))
        await trio.sleep(100)
        assert (calls(sending), sender.unknown_destination_count) == ([], 2)
        sender.image_changed()
        assert (calls(sending), sender.unknown_destination_count) == ([], 2)
        sending.leaders[A] = 1
        sender.image_changed()
        assert told(sending) == [("x", [A]), ("y", [A])]
        assert sender.unknown_destination_count == 1
        del sending.leaders[B]
        sender.image_changed()
        assert told(sending)[2:] == [("x", [B])]
        assert (sender.unknown_destination_count, sender.pending_count) == (0, 0)


async def test_deleted_partitions_need_no_marker(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 1}
        sender.send(markers("x", A, B))
        assert told(sending) == [("x", [B]), ("x", [A])]
        sender.send(markers("y"))
        assert told(sending)[2:] == [("y", [])]
        assert sender.pending_count == 0


async def test_a_fenced_transaction_gets_no_other_markers(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 2, B: 3, C: -1}
        sending.codes = {A: [ErrorCode.TRANSACTION_COORDINATOR_FENCED], B: [6, 6]}
        sending.call_seconds = 1
        sender.send(markers("x", A, B, C))
        sender.send(markers("y", C))
        await trio.sleep(60)
        sending.leaders[C] = 1
        sender.image_changed()
        assert told(sending) == [("x", "fenced"), ("y", [C])]
        assert sorted(calls(sending)) == [(1, [C]), (2, [A]), (3, [B])]
        assert sender.pending_count == 0


async def test_the_markers_of_a_shard_that_has_moved_are_dropped(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.shards = {3: 5, 4: 9}
        sending.leaders = {A: 2, B: -1, C: 3}
        sending.codes = {C: [UNREACHABLE]}
        sending.call_seconds = 1
        sender.send(markers("x", A, B, C))
        await trio.sleep(0.5)
        sender.send(markers("other", A, shard=4, epoch=9))
        sender.drop(3)
        assert sender.pending_count == 1
        sending.leaders[B] = 1
        sender.image_changed()
        await trio.sleep(60)
        assert told(sending) == [("other", [A])]
        assert sorted(sending.calls) == [(0, 2, [A]), (0, 3, [C]), (1, 2, [A])]


async def test_the_same_shard_with_a_newer_epoch_sends_anew(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: -1, B: -1}
        sender.send(markers("x", A, B))
        sending.shards[3] = 6
        sender.send(markers("x", A, epoch=6))
        sending.leaders = {A: 1, B: 1}
        sender.image_changed()
        assert told(sending) == [("x", [A])]
        assert [marker.coordinator_epoch for marker in sending.markers] == [6]


async def test_a_paused_node_sends_nothing_and_hears_nothing(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        sending.leaders = {A: 2, B: 3}
        sending.call_seconds = 1
        sender.send(markers("x", A))
        await trio.sleep(0.5)
        sending.gate.close()
        sender.send(markers("y", B))
        await trio.sleep(10)
        assert (calls(sending), told(sending)) == ([(2, [A])], [])
        sending.gate.open()
        await trio.sleep(1.1)
        assert (calls(sending), told(sending)) == ([(2, [A]), (3, [B])], [("x", [A]), ("y", [B])])


class Faults:
    """Holds the markers of topic `h`, and loses the next `left` of topic `s`."""

    def __init__(self, left: int = 1) -> None:
        self.left = left
        self.new_held = 0

    def holds(self, topic: str, *, is_new: bool = True) -> bool:
        self.new_held += is_new and topic == "h"
        return topic == "h"

    def swallows(self, topic: str) -> bool:
        self.left -= topic == "s"
        return topic == "s" and self.left >= 0


async def test_a_fault_holds_markers_until_it_is_cleared(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        held = TopicPartition("h", 0)
        sending.leaders = {A: 1, held: 1}
        faults = Faults()
        sender.use_faults(faults)
        sender.send(markers("x", A, held))
        await trio.sleep(1000)
        sender.use_faults(faults)
        assert faults.new_held == 1
        assert (told(sending), sender.pending_count) == ([("x", [A])], 1)
        sender.use_faults(None)
        assert (told(sending), sender.pending_count) == ([("x", [A]), ("x", [held])], 0)


async def test_a_fault_loses_markers_that_count_as_written(autojump_clock: Clock) -> None:
    async with running_sender() as (sending, sender):
        swallowed = [TopicPartition("s", index) for index in range(3)]
        sending.leaders = dict.fromkeys(swallowed, 1)
        sender.use_faults(Faults(left=2))
        sender.send(markers("x", *swallowed))
        assert calls(sending) == [(1, swallowed[2:])]
        assert sorted(key for _, keys in told(sending) for key in keys) == swallowed  # type: ignore[attr-defined]
        assert sender.pending_count == 0
