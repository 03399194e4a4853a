"""dump-log beside Apache Kafka's dump tool, file by file and flag by flag, on what kcli did not write."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools
    from tests.support.forensic_corpus import Corpus

pytestmark = pytest.mark.interop


class Dump(NamedTuple):
    """Which files are dumped with which options."""

    suffixes: tuple[str, ...]
    options: tuple[str, ...] = ()
    where: str = ""
    """In the paths of the files."""

    def files(self, corpus: Corpus) -> list[Path]:
        """The files, none of them missing."""
        found = [path for path in corpus.files(*self.suffixes) if self.where in str(path)]
        assert found
        return found


LOGS = (".log",)
DECODERS = (
    ("__consumer_offsets", "--offsets-decoder"),
    ("__transaction_state", "--transaction-log-decoder"),
    ("__cluster_metadata", "--cluster-metadata-decoder"),
)
STRING = "org.apache.kafka.tools.api.StringDecoder"
LOG_OPTIONS = (
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--skip-record-metadata"),
    ("--deep-iteration", "--skip-record-metadata"),
    ("--key-decoder-class", STRING),
    ("--value-decoder-class", STRING, "--skip-record-metadata"),
    ("--max-bytes", "0"),
    ("--max-bytes", "1000"),
    ("--max-bytes", "2500", "--print-data-log"),
    ("--max-message-size", "100"),
)
INDEX_OPTIONS = (
    (),
    ("--verify-index-only",),
    ("--index-sanity-check",),
    ("--max-message-size", "30000", "--verify-index-only"),
)
DUMPS = (
    *(Dump(LOGS, options) for options in LOG_OPTIONS),
    *(
        Dump(LOGS, (decoder, *more), topic)
        for topic, decoder in DECODERS
        for more in ((), ("--skip-record-metadata",), ("--deep-iteration", "--print-data-log"))
    ),
    *(
        Dump((".checkpoint",), options)
        for options in ((), ("--deep-iteration",), ("--cluster-metadata-decoder",), ("--print-data-log",))
    ),
    *(Dump((".index",), options) for options in INDEX_OPTIONS),
    *(Dump((".timeindex",), options, "/apache/") for options in INDEX_OPTIONS),
    Dump((".timeindex",), (), "/running/"),
    Dump((".timeindex",), ("--verify-index-only",), "/running/"),
    Dump((".snapshot",)),
    Dump((".txnindex",)),
    Dump((".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"), ("--print-data-log",)),
)


def name_of(dump: Dump) -> str:
    return " ".join([*dump.suffixes, dump.where, *dump.options]).strip()


@pytest.mark.parametrize("dump", DUMPS, ids=name_of)
def test_the_text_is_that_of_apache_kafka(
    corpus: Corpus, kafka_tool: KafkaTools, kcli: Callable[..., Finished], dump: Dump
) -> None:
    files = ",".join(map(str, dump.files(corpus)))
    theirs = kafka_tool("kafka-dump-log", "--files", files, *dump.options)
    assert theirs.code == 0, theirs.errors
    ours = kcli("dump-log", "-o", "text", "--files", files, *dump.options)
    assert ours.out == theirs.output
    # Also where both complain of the first entry of an index that a running broker has reserved.
    assert ours.err == theirs.errors
    assert ours.exit_code == 0


def test_a_time_index_that_a_running_broker_has_reserved_fails_the_sanity_check_of_both(
    corpus: Corpus, kafka_tool: KafkaTools, kcli: Callable[..., Finished]
) -> None:
    path = corpus.directory / "running" / "codecs-0" / f"{350:020}.timeindex"
    theirs = kafka_tool("kafka-dump-log", "--index-sanity-check", "--files", path)
    assert "CorruptIndexException" in theirs.errors
    ours = kcli("dump-log", "-o", "text", "--index-sanity-check", str(path))
    assert ours.out == theirs.output
    assert ours.err.startswith(f"{path} failed sanity check: ")
    assert ours.exit_code == 3
