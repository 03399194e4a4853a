"""`cleaner-offset-checkpoint`: through starts, truncations, deletions and moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.protocol.topics import TopicPartition
from kcli.storage.checkpoints import CLEANER_OFFSET_CHECKPOINT
from tests.storage.dirs.node_logs import NodeLogs, fill
from tests.storage.log_harness import NOW_MS

ORDERS = TopicPartition("orders", 0)


def test_the_offset_is_there_after_a_restart(node: NodeLogs) -> None:
    fill(node.create(), 30)
    fill(node.create(partition=1), 3)
    node.log().cleaner_offset = 20
    node.stop()
    assert node.offsets(CLEANER_OFFSET_CHECKPOINT) == {ORDERS: 20}
    node.start()
    assert node.log().cleaner_offset == 20
    assert node.log(partition=1).cleaner_offset is None


def test_a_node_that_never_compacts_has_no_file(node: NodeLogs) -> None:
    fill(node.create(), 3)
    node.manager.checkpoint(CLEANER_OFFSET_CHECKPOINT)
    node.stop()
    assert not (node.paths[0] / CLEANER_OFFSET_CHECKPOINT).exists()


@pytest.mark.parametrize(("offset", "expected"), [(25, 20), (12, 12), (0, 0)])
def test_a_truncation_below_the_offset_lowers_it_durably(node: NodeLogs, offset: int, expected: int) -> None:
    fill(node.create(), 30)
    node.log().cleaner_offset = 20
    node.manager.checkpoint(CLEANER_OFFSET_CHECKPOINT)
    node.log().truncate_to(offset, now_ms=NOW_MS)
    assert node.log().cleaner_offset == expected
    assert node.offsets(CLEANER_OFFSET_CHECKPOINT) == {ORDERS: expected}


def test_starting_over_lowers_the_offset(node: NodeLogs) -> None:
    fill(node.create(), 30)
    node.log().cleaner_offset = 20
    node.log().truncate_fully_and_start_at(7, now_ms=NOW_MS)
    assert node.offsets(CLEANER_OFFSET_CHECKPOINT) == {ORDERS: 7}


def test_the_entry_of_a_deleted_log_is_dropped(node: NodeLogs) -> None:
    fill(node.create(), 30)
    node.log().cleaner_offset = 20
    node.manager.checkpoint(CLEANER_OFFSET_CHECKPOINT)
    node.manager.delete("orders", 0, now_ms=NOW_MS)
    node.manager.checkpoint(CLEANER_OFFSET_CHECKPOINT)
    assert node.offsets(CLEANER_OFFSET_CHECKPOINT) == {}


def test_a_move_to_another_directory_takes_the_entry_along(tmp_path: Path) -> None:
    node = NodeLogs(tmp_path, directories=2)
    node.start()
    log = node.create()
    fill(log, 30)
    log.cleaner_offset = 20
    source = node.paths.index(Path(log.parent_directory))
    copy = node.manager.create_future_log(log, directory=str(node.paths[1 - source]), now_ms=NOW_MS)
    fill(copy, 30)
    node.manager.promote_future_log(ORDERS, now_ms=NOW_MS)
    node.manager.checkpoint(CLEANER_OFFSET_CHECKPOINT)
    assert not (node.paths[source] / CLEANER_OFFSET_CHECKPOINT).exists()
    assert node.offsets(CLEANER_OFFSET_CHECKPOINT, 1 - source) == {ORDERS: 20}
    node.stop()


def test_records_in_the_place_of_lost_ones_are_not_clean(node: NodeLogs) -> None:
    fill(node.create(), 30)
    node.log().cleaner_offset = 20
    node.stop()
    for path in (node.paths[0] / "orders-0").iterdir():
        path.unlink()
    node.start()
    assert node.log().log_end_offset < 20
    fill(node.log(), 30)
    assert node.log().cleaner_offset is None
