"""Groups from log directories: the records that count, damage, and unchanged files."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.config.group_definitions import GroupConfig
from kcli.broker.coordinator.group_coordinator import GroupCoordinator
from kcli.broker.coordinator.runtime.loader import LogReplay
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE
from kcli.commands.groups.files import GroupFiles, head_of, members_of
from kcli.commands.groups.history import CommitEvent, GenerationEvent
from kcli.errors import KcliError
from kcli.forensics.contents.log_directory_reader import end_offset, find_replicas
from kcli.protocol.internal.coordinator_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
    GroupMetadataKey,
    TargetPartitions,
    decode_record,
)
from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.control_records import ControlRecordType
from tests.commands.groups.offsets_log import NOW, OffsetsLog, offset_key, offset_value, write_topic

ORDERS_ID = b"\7" * 16


@pytest.fixture
def log(tmp_path: Path) -> OffsetsLog:
    """A log directory with an empty partition of the offsets topic."""
    return OffsetsLog(tmp_path / "logs")


def offsets(files: GroupFiles, group: str) -> dict[tuple[str, int], int | None]:
    return {partition: commit.offset for partition, commit in files.groups()[group].offsets.items()}


def messages(files: GroupFiles) -> list[str]:
    """The errors, without the directories."""
    return [failure.message.rpartition("/")[2] for failure in files.failures]


def test_the_last_record_of_a_key_counts(log: OffsetsLog) -> None:
    log.commit("billing", "orders", 0, 5)
    log.commit("billing", "orders", 1, 7)
    log.roll()
    log.commit("billing", "orders", 0, 9)
    log.append((offset_key("billing", "orders", 1), None))
    log.generation("billing", 1, one={"orders": (0,)})
    log.generation("billing", 2)
    log.commit("gone", "orders", 0, 1)
    log.append((offset_key("gone", "orders", 0), None), (GroupMetadataKey(group="gone"), None))
    files = GroupFiles([log.directory])
    groups = files.groups()
    assert offsets(files, "billing") == {("orders", 0): 9}
    assert (head_of(groups["billing"]).state, groups["billing"].exists) == ("Empty", True)
    assert not groups["gone"].exists
    assert files.failures == []


def test_events_are_kept_of_the_groups_that_are_asked_for(log: OffsetsLog) -> None:
    log.commit("billing", "orders", 0, 5, NOW + 1)
    log.generation("billing", 3, NOW + 2, one={"orders": (1, 0)})
    log.append((offset_key("billing", "orders", 0), None), at_ms=NOW + 3)
    log.append((GroupMetadataKey(group="billing"), None), at_ms=NOW + 4)
    log.commit("other", "orders", 0, 5)
    groups = GroupFiles([log.directory]).groups(with_events=lambda name: name == "billing")
    commit, generation, deleted, ended = groups["billing"].events
    assert (commit, deleted) == (
        CommitEvent(NOW + 1, "orders", 0, 5),
        CommitEvent(NOW + 3, "orders", 0, None),
    )
    assert isinstance(generation, GenerationEvent)
    assert (generation.at_ms, generation.number, generation.assignor) == (NOW + 2, 3, "range")
    assert [(member.client_id, member.assignment) for member in generation.members] == [
        ("one", {"orders": (0, 1)})
    ]
    assert ended == GenerationEvent(NOW + 4, None, None, None, ())
    assert groups["other"].events == []


def test_a_transaction_counts_once_it_is_committed(log: OffsetsLog) -> None:
    for producer_id, partition in ((1, 1), (2, 2), (3, 3)):
        log.append((offset_key("g", "orders", partition), offset_value(50)), producer_id=producer_id)
    log.commit("g", "orders", 0, 10)
    log.end_transaction(1, ControlRecordType.COMMIT)
    log.end_transaction(2, ControlRecordType.ABORT)
    assert offsets(GroupFiles([log.directory]), "g") == {("orders", 0): 10, ("orders", 1): 50}


def test_a_late_marker_leaves_what_was_written_after_its_records(log: OffsetsLog) -> None:
    log.append(
        *((offset_key("g", "orders", partition), offset_value(50)) for partition in range(3)), producer_id=1
    )
    log.commit("g", "orders", 0, 60)
    log.append((offset_key("g", "orders", 1), None))
    log.end_transaction(1, ControlRecordType.COMMIT)
    assert offsets(GroupFiles([log.directory]), "g") == {("orders", 0): 60, ("orders", 2): 50}


def test_damage_in_a_transaction_is_told_once(log: OffsetsLog) -> None:
    log.append((offset_key("g", "orders", 0), offset_value(50)), producer_id=1)
    log.append((b"", b""), producer_id=1)
    log.end_transaction(1, ControlRecordType.COMMIT)
    log.write(bytes(RecordBatchBuilder(is_control=True, producer_id=1).build()), 1)
    files = GroupFiles([log.directory])
    assert offsets(files, "g") == {("orders", 0): 50}
    assert len(files.failures) == 1


def consumer_group(log: OffsetsLog, member_epoch: int, target_epoch: int = 4) -> None:
    """A group of the consumer protocol in epoch 4 with one member."""
    log.append(
        (
            ConsumerGroupMemberMetadataKey(group_id="modern", member_id="m"),
            ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="one",
                client_host="/10.0.0.1",
                subscribed_topic_names=["orders"],
                subscribed_topic_regex=None,
                server_assignor=None,
                classic_member_metadata=None,
            ),
        ),
        (ConsumerGroupMetadataKey(group_id="modern"), ConsumerGroupMetadataValue(epoch=4)),
        (
            ConsumerGroupTargetAssignmentMemberKey(group_id="modern", member_id="m"),
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[TargetPartitions(topic_id=ORDERS_ID, partitions=[1, 0])]
            ),
        ),
        (
            ConsumerGroupTargetAssignmentMetadataKey(group_id="modern"),
            ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=target_epoch),
        ),
        (
            ConsumerGroupCurrentMemberAssignmentKey(group_id="modern", member_id="m"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=member_epoch,
                previous_member_epoch=3,
                state=0,
                assigned_partitions=[CurrentPartitions(topic_id=ORDERS_ID, partitions=[0])],
                partitions_pending_revocation=[],
            ),
        ),
    )


@pytest.mark.parametrize(
    ("member_epoch", "target_epoch", "state"), [(4, 4, "Stable"), (3, 4, "Reconciling"), (3, 3, "Assigning")]
)
def test_a_group_of_the_consumer_protocol(
    log: OffsetsLog, member_epoch: int, target_epoch: int, state: str
) -> None:
    write_topic(log.directory, "orders", 0, 3, ORDERS_ID)
    consumer_group(log, member_epoch, target_epoch)
    files = GroupFiles([log.directory])
    group = files.groups()["modern"]
    head = head_of(group)
    assert (head.type, head.state, head.group_epoch, head.target_assignment_epoch) == (
        "Consumer",
        state,
        4,
        target_epoch,
    )
    (member,) = members_of(group, files.topic_name).members
    assert (member.assignment, member.target_assignment) == ({"orders": (0,)}, {"orders": (0, 1)})
    assert (member.current_epoch, member.upgraded) == (member_epoch, True)


def test_a_group_of_the_consumer_protocol_that_is_deleted_is_no_more(log: OffsetsLog) -> None:
    consumer_group(log, 4)
    log.append((ConsumerGroupMetadataKey(group_id="modern"), None))
    log.append((ConsumerGroupMemberMetadataKey(group_id="modern", member_id="m"), None))
    assert not GroupFiles([log.directory]).groups()["modern"].exists


def test_records_of_types_from_the_future_are_passed_over(log: OffsetsLog) -> None:
    log.append((b"\x00\x63\x00\x01g", b"\x00\x00"))
    files = GroupFiles([log.directory])
    assert (files.groups(), files.failures) == ({}, [])


def test_a_damaged_batch_is_passed_over_and_reported(log: OffsetsLog) -> None:
    log.commit("g", "orders", 0, 5)
    log.commit("g", "orders", 0, 6)
    log.corrupt(-1)
    log.commit("g", "orders", 1, 7)
    files = GroupFiles([log.directory])
    assert offsets(files, "g") == {("orders", 0): 5, ("orders", 1): 7}
    size = log.segment.stat().st_size // 3
    assert messages(files) == [
        f"{0:020d}.log`, byte {size}: the batch of offset 1 is passed over: the checksum does not match"
    ]


def test_a_torn_end_is_reported(log: OffsetsLog) -> None:
    log.commit("g", "orders", 0, 5)
    log.commit("g", "orders", 0, 6)
    log.cut(3)
    files = GroupFiles([log.directory])
    assert offsets(files, "g") == {("orders", 0): 5}
    assert [message.partition(": ")[2] for message in messages(files)] == ["the last batch is cut short"]


def test_garbage_costs_the_rest_of_its_segment_only(log: OffsetsLog) -> None:
    log.commit("g", "orders", 0, 5)
    log.write(b"\xff" * 100, 1)
    log.commit("g", "orders", 1, 6)
    log.roll()
    log.commit("g", "orders", 2, 7)
    files = GroupFiles([log.directory])
    assert offsets(files, "g") == {("orders", 0): 5, ("orders", 2): 7}
    assert [message.partition(": ")[2] for message in messages(files)] == [
        "no batch begins here, the rest of the file is passed over"
    ]


def test_a_preallocated_end_is_no_damage(log: OffsetsLog) -> None:
    log.commit("g", "orders", 0, 5)
    log.write(bytes(4096), 0)
    files = GroupFiles([log.directory])
    assert (offsets(files, "g"), files.failures) == ({("orders", 0): 5}, [])


def test_a_record_that_is_no_coordinators_is_reported(log: OffsetsLog) -> None:
    log.append((b"\x00\x01\x00\xffg", b"\x00\x03"))
    log.append((b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", b"\x00\x63"))
    log.commit("g", "orders", 0, 5)
    files = GroupFiles([log.directory])
    assert offsets(files, "g") == {("orders", 0): 5}
    assert [message.partition(":")[0] for message in messages(files)] == [
        "__consumer_offsets-0`, offset 0",
        "__consumer_offsets-0`, offset 1",
    ]


def test_several_log_directories_are_one_broker(tmp_path: Path) -> None:
    OffsetsLog(tmp_path / "d1", 0).commit("a", "orders", 0, 1)
    OffsetsLog(tmp_path / "d2", 1).commit("b", "orders", 0, 2)
    groups = GroupFiles([tmp_path / "d1", tmp_path / "d2"]).groups()
    assert set(groups) == {"a", "b"}


def test_of_several_nodes_the_replica_that_reaches_furthest_counts(tmp_path: Path) -> None:
    for node, commits in ((1, 2), (2, 5), (3, 3)):
        log = OffsetsLog(tmp_path / f"node-{node}")
        (log.directory / "meta.properties").write_text("version=1\n")
        for number in range(commits):
            log.commit("g", "orders", 0, number)
    assert offsets(GroupFiles([tmp_path]), "g") == {("orders", 0): 4}


def test_directories_that_are_on_their_way_out_do_not_count(log: OffsetsLog) -> None:
    log.commit("g", "orders", 0, 5)
    log.path.rename(log.directory / f"__consumer_offsets-0.{'a' * 32}-delete")
    with pytest.raises(KcliError, match="there is no partition of __consumer_offsets") as caught:
        GroupFiles([log.directory]).groups()
    assert caught.value.exit_code == 1


def test_a_compacted_segment_counts_if_the_one_it_replaces_is_gone(log: OffsetsLog) -> None:
    log.commit("g", "orders", 0, 5)
    log.segment.rename(log.segment.with_name(log.segment.name + ".swap"))
    assert offsets(GroupFiles([log.directory]), "g") == {("orders", 0): 5}
    other = OffsetsLog(log.directory)
    other.commit("g", "orders", 0, 6)
    assert offsets(GroupFiles([log.directory]), "g") == {("orders", 0): 6}


@pytest.mark.parametrize(("name", "exit_code"), [("missing", 1), ("file", 2)])
def test_what_is_missing_cannot_be_read_and_what_is_no_directory_is_wrong_usage(
    name: str, exit_code: int, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KcliError, match="cannot read") as caught:
        GroupFiles([tmp_path / name])
    assert caught.value.exit_code == exit_code


def test_ranges_come_from_the_files_of_the_topics(log: OffsetsLog) -> None:
    write_topic(log.directory, "orders", 0, 5)
    write_topic(log.directory, "orders", 1, 0)
    (log.directory / "log-start-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    files = GroupFiles([log.directory])
    assert files.ranges([("orders", 0), ("orders", 1), ("orders", 2)]) == {
        ("orders", 0): (2, 5),
        ("orders", 1): (0, 0),
    }


def test_the_end_of_a_replica_is_behind_its_last_whole_batch(tmp_path: Path) -> None:
    path = write_topic(tmp_path, "orders", 0, 5)
    assert end_offset(path) == 5
    (path / f"{5:020d}.log").write_bytes(b"")
    assert end_offset(path) == 5
    segment = path / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes() + b"\0" * 40)
    assert end_offset(path) == 5


def test_reading_changes_nothing_and_needs_no_permission_to(log: OffsetsLog) -> None:
    write_topic(log.directory, "orders", 0, 5)
    log.commit("g", "orders", 0, 5)
    before = {path: path.stat().st_mtime_ns for path in log.directory.rglob("*")}
    for path in before:
        os.chmod(path, stat.S_IRUSR | (stat.S_IXUSR if path.is_dir() else 0))
    try:
        files = GroupFiles([log.directory])
        assert files.ranges(files.groups()["g"].offsets) == {("orders", 0): (0, 5)}
    finally:
        for path in before:
            os.chmod(path, stat.S_IRWXU)
    assert {path: path.stat().st_mtime_ns for path in log.directory.rglob("*")} == before
    assert find_replicas([log.directory]).keys() == {("__consumer_offsets", 0), ("orders", 0)}


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"),
            st.sampled_from("ab"),
            st.integers(0, 2),
            st.integers(0, 99),
            st.integers(-1, 1),
        ),
        st.tuples(st.just("forget"), st.sampled_from("ab"), st.integers(0, 2)),
        st.tuples(st.just("end"), st.integers(0, 1), st.sampled_from(["COMMIT", "ABORT"])),
        st.tuples(st.just("roll")),
    ),
    max_size=30,
)


@given(STEPS)
def test_any_history_ends_in_the_offsets_that_a_coordinator_would_have(
    steps: list[tuple[str | int, ...]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = OffsetsLog(Path(directory))
        for step in steps:
            match step:
                case ("commit", str(group), int(partition), int(offset), int(producer_id)):
                    log.append(
                        (offset_key(group, "orders", partition), offset_value(offset)),
                        producer_id=producer_id,
                    )
                case ("forget", str(group), int(partition)):
                    log.append((offset_key(group, "orders", partition), None))
                case ("end", int(producer_id), str(end)):
                    log.end_transaction(producer_id, ControlRecordType[end])
                case _:
                    log.roll()
        files = GroupFiles([log.directory])
        found = {
            (name, partition): commit.offset
            for name, group in files.groups().items()
            for (_, partition), commit in group.offsets.items()
        }
        assert (found, files.failures) == (loaded_offsets(log), [])


def loaded_offsets(log: OffsetsLog) -> dict[tuple[str, int], int]:
    """The offsets of groups `a` and `b` in a coordinator that has loaded the log."""
    shard = GroupCoordinator(GroupConfig(), image=lambda: EMPTY_IMAGE, new_id=str)
    replay = LogReplay(shard, decode=decode_record, report=pytest.fail)
    for segment in sorted(log.path.glob("*.log")):
        for _ in replay.page(segment.read_bytes()):
            pass
    return {
        (name, each.partition_index): each.committed_offset
        for name in "ab"
        for topic in shard.offset_fetch(OffsetFetchRequestGroup(group_id=name, topics=None)).topics
        for each in topic.partitions
    }
