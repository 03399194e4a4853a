"""Whether brokers still have what was read of them: what a leader says of epochs, and what that means."""

from __future__ import annotations

import pytest

from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition
from kcli.spark.source.brokers.brokers_source import BrokersSource
from kcli.spark.split import BatchMark
from tests.spark.source.brokers.read_splits import IMPATIENT
from tests.spark.source.brokers.scripted_broker import ScriptedBroker

T_0 = TopicPartition("t", 0)
ANSWERS = {
    "the epoch goes on behind the batch": ((3, 100), None),
    "the epoch ends with the batch": ((3, 70), None),
    "the epoch ends before the batch ends": ((3, 69), 69),
    "the epoch ends long before": ((3, 40), 40),
    "the epoch was never there": ((2, 40), 40),
    "an earlier epoch goes on behind the batch": ((2, 80), 80),
    "no epoch is as large": ((-1, -1), 0),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_the_end_of_an_epoch_tells_whether_a_batch_is_there(case: str) -> None:
    answer, expected = ANSWERS[case]
    with ScriptedBroker() as broker:
        broker.epoch_ends = {3: answer}
        found = BrokersSource(broker.bootstrap).divergences({T_0: (BatchMark(69, 3),)})
    assert found == ({} if expected is None else {T_0: expected})


def test_every_batch_is_looked_for() -> None:
    marks = {T_0: (BatchMark(49, 2), BatchMark(69, 3), BatchMark(99, 6))}
    with ScriptedBroker() as broker:
        source = BrokersSource(broker.bootstrap)
        broker.epoch_ends = {2: (2, 50), 3: (3, 70), 6: (6, 100)}
        assert source.divergences(marks) == {}
        broker.epoch_ends = {2: (2, 45), 3: (2, 45), 6: (6, 100)}
        assert source.divergences(marks) == {T_0: 45}
        assert source.divergences({}) == {}


def test_a_broker_that_is_too_old_to_say_is_believed() -> None:
    with ScriptedBroker(max_epoch_version=0) as broker:
        assert BrokersSource(broker.bootstrap).divergences({T_0: (BatchMark(69, 3),)}) == {}


def test_a_partition_that_cannot_be_asked_for_is_an_error() -> None:
    missing = TopicPartition("t", 7)
    with ScriptedBroker() as broker:
        source = BrokersSource(broker.bootstrap, IMPATIENT)
        with pytest.raises(KcliError, match="cannot ask for the leader epochs of t-7"):
            source.divergences({missing: (BatchMark(69, 3),)})
