"""Progress of copies: bytes, rates and remaining times, from observed sizes."""

from __future__ import annotations

from kcli.client.admin import ReplicaPlace, TopicPartitionReplica
from kcli.commands.reassignment.progress import CopyState, CopyTracker, progress_table, summary
from kcli.commands.reassignment.view import Copy

SOURCE = TopicPartitionReplica("orders", 0, 1)
TARGET = TopicPartitionReplica("orders", 0, 2)


def seen(tracker: CopyTracker, now: float, copied: int, total: int = 10_000) -> CopyState:
    """Observe a copy from broker 1 to broker 2."""
    places = {SOURCE: ReplicaPlace("/d1", total), TARGET: ReplicaPlace("/d1", copied)}
    (state,) = tracker.observe(now, places, {TARGET})
    return state


def test_rate_and_time_left_are_those_of_the_last_ten_seconds() -> None:
    tracker = CopyTracker([Copy(TARGET, 10_000)])
    assert seen(tracker, 0, 1000)[3:] == (10_000, None, None)
    assert seen(tracker, 1, 1000)[4:] == (0.0, None), "nothing came"
    assert seen(tracker, 2, 3000)[4:] == (1000.0, 7.0)
    for second in range(3, 20):
        state = seen(tracker, second, 3000 + 100 * (second - 2))
    assert state[4:] == (100.0, 53.0)


def test_a_log_that_shrinks_has_no_rate_and_one_that_grows_is_measured_by_its_end() -> None:
    tracker = CopyTracker([Copy(TARGET, 10_000)])
    seen(tracker, 0, 5000)
    assert seen(tracker, 1, 4000).bytes_per_second == 0.0
    assert seen(tracker, 2, 20_000, total=12_000).seconds_left == 0.0


def test_a_log_on_its_way_to_another_directory_counts_by_the_part_that_is_there() -> None:
    replica = TopicPartitionReplica("orders", 0, 1)
    tracker = CopyTracker([Copy(replica, 800, "/d2")])
    places = {replica: ReplicaPlace("/d1", 800, "/d2", 300)}
    (state,) = tracker.observe(0, places, {replica})
    assert (state.copied_bytes, state.total_bytes) == (300, 800)
    (state,) = tracker.observe(1, {replica: ReplicaPlace("/d2", 800)}, set())
    assert (state.is_done, state.copied_bytes) == (True, 800)


def test_what_no_broker_tells_is_left_out() -> None:
    tracker = CopyTracker([Copy(TARGET, None)])
    (state,) = tracker.observe(0, {}, {TARGET})
    assert state == CopyState(Copy(TARGET, None), False, 0, None, None, None)
    assert progress_table([state]).rows == [("orders-0", "2", "0 B", None, None, None)]


def test_all_copies_in_one_line_and_in_a_table() -> None:
    tracker = CopyTracker([Copy(TARGET, 10_000), Copy(TopicPartitionReplica("orders", 1, 2), 500)])
    places = {SOURCE: ReplicaPlace("/d1", 10_000), TARGET: ReplicaPlace("/d1", 1000)}
    tracker.observe(0, places, {TARGET})
    states = tracker.observe(1, {**places, TARGET: ReplicaPlace("/d1", 2000)}, {TARGET})
    assert summary(states, 1) == "1 partition on the move, 2.5 kB of 10.5 kB, 1.0 kB/s, 8s left"
    assert summary(states, 2, {3, 2}).endswith(", waiting for brokers that are down: 2,3")
    assert progress_table(states).rows == [("orders-0", "2", "2.0 kB", "10.0 kB", "1.0 kB/s", "8s")]
