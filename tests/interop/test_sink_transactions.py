"""The transactions of Spark's sink on Apache Kafka: a job as a whole, and the rows of a stream once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcli.spark.datasource.sink import KcliSink
from tests.spark.datasource.sink_tasks import SCHEMA, Sink, killed_after
from tests.support.apache_kafka import ApacheKafka
from tests.support.producing import delete_topic

pytestmark = pytest.mark.interop


@pytest.fixture
def sink(apache_kafka: ApacheKafka) -> Iterator[Sink]:
    sink = Sink(apache_kafka.bootstrap)
    yield sink
    delete_topic(apache_kafka.bootstrap, sink.topic)


def test_a_job_is_seen_as_a_whole_or_not_at_all(sink: Sink) -> None:
    writer = KcliSink(sink.options, SCHEMA)
    writer.abort([sink.task(0, "a"), None, sink.task(2, "c")])
    sent = [sink.task(0, "d", "e"), sink.task(1, "f")]
    assert sink.seen() == []
    writer.commit(list(sent))
    writer.abort(list(sent))
    assert sink.seen() == ["d", "e", "f"]


@pytest.mark.parametrize("committed", [0, 1])
def test_a_repeated_micro_batch_commits_what_was_not_committed(committed: int, sink: Sink) -> None:
    sink.micro_batch(0, "a", "b")
    with killed_after(committed):
        sink.micro_batch(1, "c", "", "d")
    sink.micro_batch(1, "c", "", "d")
    assert sink.seen() == ["a", "b", "c", "d"]
